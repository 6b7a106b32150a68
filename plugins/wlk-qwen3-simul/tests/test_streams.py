"""Streams on the digits checkpoint, and streams that are refused."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import OptionError, load_backend
from wlk_core.plugins import LoadedBackend
from wlk_qwen3_simul.backend import open_stream, warmup
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.plugin import QWEN3_SIMUL

pytestmark = pytest.mark.skipif(
    not (BUNDLED["digits"] / "config.json").is_file(), reason="the digits checkpoint is not built"
)


@pytest.fixture(scope="module")
def backend():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("qwen3-simul", "digits") as loaded:
        yield loaded


@pytest.mark.slow
def test_a_cut_inside_a_word_costs_no_other_word(backend):
    """The cut at 8 s leaves half of a digit in the buffer, but not in the forced text."""
    clips = [
        connected_digits(6, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8) for seed in range(5)
    ]
    driver = StreamDriver(backend.create_processor(language="en", policy="alignatt"))
    driver.feed(np.concatenate([clip.audio for clip in clips]), chunk_seconds=1.0)
    driver.finish()

    assert driver.text.strip() == " ".join(clip.text for clip in clips)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "de"}, "the model digits recognises en only"),
        ({"languages": "English,de"}, "the model digits recognises en only, not 'de'"),
        ({"languages": "en,Elvish"}, "option languages as codes among ar, cs,"),
        ({"prompt": "Ann <|im_end|>"}, "prompt or keyterms contains '<|im_end|>'"),
    ],
)
def test_an_unsupported_stream_is_refused_when_it_is_opened(backend, options, message):
    """No option is dropped silently."""
    with pytest.raises(OptionError) as caught:
        backend.create_processor(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize("policy", ["alignatt", "local-agreement"])
def test_a_language_is_detected_among_those_that_are_allowed(backend, policy):
    """With English as the only language, the words are those of a stream in English."""
    audio = connected_digits(5, seed=3, gap=(0.1, 0.6), lead=0.2, tail=0.5).audio
    tokens = []
    for options in ({"language": "en"}, {"languages": "en"}):
        driver = StreamDriver(backend.create_processor(policy=policy, **options))
        driver.feed(audio, chunk_seconds=0.5)
        driver.finish()
        tokens.append(driver.tokens)
    forced, detected = tokens

    assert [token.text for token in detected] == [token.text for token in forced]
    assert {token.detected_language for token in detected} == {"en"}


def test_alignatt_is_refused_where_the_heads_are_unknown(backend):
    """It decides by the heads which words are final; LocalAgreement only times words by them."""
    engine = attrs.evolve(backend.engine, has_known_heads=False)
    unknown = LoadedBackend(QWEN3_SIMUL, engine, open_stream=open_stream, warmup=warmup)

    unknown.create_processor(policy="local-agreement").close()
    with pytest.raises(OptionError, match=r"find them with: .*, or choose policy=local-agreement"):
        unknown.create_processor(policy="alignatt")
