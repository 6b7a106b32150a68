from __future__ import annotations

from functools import partial
import gc
from typing import TYPE_CHECKING, Any
import weakref

import attrs
import pytest

from wlk_conformance.testing import silence
from wlk_core import Session
from wlk_core.plugins import (
    BackendSpec,
    EngineCalls,
    LoadedBackend,
    Option,
    OptionError,
    Step,
    StreamClosed,
    StreamConfig,
    WorkCounters,
)
from wlk_core.streaming import Word

if TYPE_CHECKING:
    from collections.abc import Callable

SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="wlk_toy.backend:load",
    options=(
        Option(name="device", default="cpu"),
        Option(name="tick_seconds", type=float, default=1.0, scope="stream"),
        Option(name="border_seconds", type=float, default=0.5, scope="stream", policies=("x",)),
    ),
    capabilities={"language-forcing"},
    languages=("en", "de"),
    policies=("x", "y"),
)


@attrs.define(eq=False)
class Engine:
    """An engine that counts the samples it is called with."""

    samples: int = 0

    def decode(self, samples: Any) -> Any:
        """Return a word for the samples."""
        self.samples += samples
        return Word(0.0, 0.1, " word")


@attrs.define(eq=False)
class ToyRecognizer:
    """Commit a word for each second that was fed."""

    decode: Callable[[int], Word]
    waiting: int = 0
    consumed: int = 0

    hypothesis = ()
    language = None
    work = WorkCounters()
    state_bytes = 0

    def feed(self, audio: Any) -> None:
        """Count the samples."""
        self.waiting += len(audio)

    def step(self, *, is_last: Any) -> Any:
        """Commit a word for what was fed, once the engine has answered."""
        del is_last
        if not self.waiting:
            return None
        word = self.decode(self.waiting)
        self.consumed, self.waiting = self.consumed + self.waiting, 0
        return Step(committed=(word,), consumed_samples=self.consumed)

    def end_utterance(self, committed_text: Any) -> None:
        """Begin anew."""
        self.consumed = 0

    def close(self) -> None:
        """Hold nothing."""


def toy(spec: BackendSpec = SPEC, **functions: Any) -> Any:
    """Return a loaded backend, and the configurations its streams were opened with."""
    configs = []

    def open_stream(engine: Any, config: Any, calls: EngineCalls) -> Any:
        configs.append(config)
        return partial(ToyRecognizer, calls.wrap(engine.decode))

    def warmup(engine: Any, calls: EngineCalls) -> None:
        calls.wrap(engine.decode)(16)

    functions = {"open_stream": open_stream, "warmup": warmup, **functions}
    return LoadedBackend(spec, Engine(), **functions), configs


def test_a_stream_is_opened_with_checked_and_complete_options() -> None:
    """The configuration has the language, the task, the policy and every stream option."""
    backend, configs = toy()
    backend.create_processor(language="de", policy="y", tick_seconds="2")

    assert [
        StreamConfig(
            language="de",
            task="transcribe",
            policy="y",
            options={"policy": "y", "tick_seconds": 2.0, "border_seconds": 0.5},
        )
    ] == configs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "fr"}, "toy does not support the language 'fr'; expected one of: en, de"),
        ({"task": "translate"}, "toy cannot do the task 'translate'"),
        ({"device": "gpu"}, r"device is an option of load_backend\(\.\.\., device=\.\.\.\)"),
        ({"tick_seconds": "soon"}, "option tick_seconds is a float; got 'soon'"),
        ({"policy": "y", "border_seconds": 1.0}, "policy=y takes no border_seconds"),
    ],
    ids=["language", "task", "scope", "value", "policy"],
)
def test_a_stream_that_the_spec_cannot_do_is_refused_before_it_is_opened(
    arguments: dict[str, Any], message: str
) -> None:
    """Neither the model nor the plugin is reached."""
    backend, configs = toy()

    with pytest.raises(OptionError, match=message):
        backend.create_processor(**arguments)
    assert [] == configs


def test_a_reset_makes_a_new_recognizer_without_opening_the_stream_again() -> None:
    """The function that `open_stream` returns is called for the stream and for each reset."""
    made = []

    def open_stream(engine: Any, config: Any, calls: EngineCalls) -> Any:
        def make() -> Any:
            made.append(ToyRecognizer(engine.decode))
            return made[-1]

        return make

    backend, _ = toy(open_stream=open_stream)
    stream = backend.create_processor()
    stream.reset()

    assert 2 == len(made)


@pytest.mark.parametrize(
    ("options", "policy"),
    [({}, "long-form"), ({"policy": "y"}, "y"), ({"border_seconds": 0.2}, "x")],
    ids=["nothing named", "a policy", "an option of another policy"],
)
def test_a_recording_has_the_policy_for_recordings(options: Any, policy: str) -> None:
    """It is taken unless the caller names another one, or an option that it does not take."""
    backend, configs = toy(attrs.evolve(SPEC, policies=("x", "y", "long-form")))

    backend.transcribe(silence(1.0), vad=False, **options)
    list(backend.stream([silence(1.0)], vad=False))  # chunks are live, and may still be recorded

    assert [policy, "x"] == [config.policy for config in configs]


@pytest.mark.parametrize("call", ["transcribe", "stream", "astream"])
def test_a_wrong_option_is_refused_before_the_audio_is_read(call: str) -> None:
    """The stream is opened first, so that a typing mistake costs no time."""
    backend, _ = toy()

    with pytest.raises(OptionError, match="no option is called 'beam'"):
        getattr(backend, call)("no such file", beam=5)


def test_a_closed_backend_refuses_streams_warmup_and_its_engine() -> None:
    """Each names the remedy; closing again changes nothing."""
    backend, _ = toy()
    with backend as entered:
        assert entered is backend
    backend.close()

    for call in (backend.create_processor, backend.warmup, lambda: backend.engine):
        with pytest.raises(StreamClosed, match="the backend is closed; load it again"):
            call()


def test_the_engine_is_kept_by_open_streams_and_by_nothing_else() -> None:
    """When the backend is closed and the last stream is gone, so is the model."""
    backend, configs = toy()
    engine = weakref.ref(backend.engine)
    stream = backend.create_processor()
    backend.close()
    gc.collect()
    assert engine() is not None
    del stream
    configs.clear()
    gc.collect()

    assert engine() is None


def test_the_engine_is_released_once() -> None:
    """`release` runs at the first close, with the engine."""
    released: list[Engine] = []
    backend, _ = toy(release=released.append)
    engine = backend.engine
    backend.close()
    backend.close()

    assert [engine] == released


def test_a_repr_names_backend_and_model() -> None:
    """A developer who prints a backend, a stream or a session learns what it is."""
    backend, _ = toy()
    backend.model = "tiny"
    stream = backend.create_processor()
    name = f"{backend.spec.name}, model tiny"

    assert f"<LoadedBackend {name}>" == repr(backend)
    assert f"<OnlineStream {name}, 0.0 s of audio>" == repr(stream)
    assert f"<Session 0.0 s of audio for {stream!r}>" == repr(Session(stream))
