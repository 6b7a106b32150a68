"""The options that `transcribe`, `stream` and `astream` give to the streams that they open."""

from __future__ import annotations

from functools import partial

import pytest

from wlk_conformance.testing import silence
from wlk_core import BackendSpec, OptionError
from wlk_core.plugins import Hypothesis, LoadedBackend, LocalAgreementRecognizer, Option
from wlk_live import astream, stream, transcribe

SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="wlk_toy.backend:load",
    options=(
        Option(name="border_seconds", type=float, default=0.5, scope="stream", policies=("x",)),
    ),
    policies=("x", "y", "long-form"),
)


@pytest.fixture
def toy():
    """Return a backend that recognises nothing, and a list of its streams' configs."""
    configs = []

    def recognise_nothing(audio, *, prompt, language):
        return Hypothesis(words=(), language=None)

    def open_stream(_engine, config, calls):
        configs.append(config)
        return partial(LocalAgreementRecognizer, calls.wrap(recognise_nothing))

    return LoadedBackend(SPEC, object(), open_stream=open_stream, warmup=lambda *_: None), configs


@pytest.mark.parametrize(
    ("options", "policy"),
    [({}, "long-form"), ({"policy": "y"}, "y"), ({"border_seconds": 0.2}, "x")],
    ids=["nothing named", "a policy", "an option of another policy"],
)
def test_a_recording_has_the_policy_for_recordings(toy, options, policy):
    """It is used unless the caller names another one, or an option that it does not take."""
    backend, configs = toy

    transcribe(backend, silence(1.0), vad=False, **options)
    list(stream(backend, [silence(1.0)], vad=False))  # chunks are live, recorded or not

    assert [config.policy for config in configs] == [policy, "x"]


@pytest.mark.parametrize(
    ("call", "audio"), [(transcribe, "no such file"), (stream, iter([1])), (astream, iter([1]))]
)
def test_a_wrong_option_is_refused_before_the_audio_is_read(toy, call, audio):
    """The stream is opened first, so a typing mistake costs no time."""
    backend, _ = toy

    with pytest.raises(OptionError, match="no option is called 'beam'"):
        call(backend, audio, beam=5)
