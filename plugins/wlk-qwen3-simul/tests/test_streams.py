"""Streams of both frameworks on the digits checkpoint commit the same words."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import OptionError, load_backend
from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.engine.decoder import transcribe
from wlk_qwen3_simul.engine.engine import DecodingOptions

pytestmark = pytest.mark.skipif(
    not (BUNDLED["digits"] / "config.json").is_file(), reason="the digits checkpoint is not built"
)
POLICIES = ["alignatt", "local-agreement"]


@pytest.fixture(scope="module")
def backend():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("qwen3-simul", "digits") as loaded:
        yield loaded


def stream(backend, audio, *, chunk=16_000, **options):
    """Return the driver of a stream that received all of *audio* and was finished."""
    driver = StreamDriver(backend.create_processor(**options))
    for first in range(0, len(audio), chunk):
        driver.insert(audio[first : first + chunk])
        driver.drain()
    driver.finish()
    return driver


def committed(driver):
    """Return the texts and times of the committed tokens."""
    return [(token.text, token.start, token.end) for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_both_frameworks_commit_the_words_of_one_decoding(backend, policy):
    """In float32, text, times and work are the same on both frameworks, whatever the policy."""
    pytest.importorskip("mlx.core", reason="needs wlk-qwen3-simul[mlx]")
    pytest.importorskip("mlx_qwen3_asr", reason="needs wlk-qwen3-simul[mlx]")
    clip = connected_digits(12, seed=2, gap=(0.1, 0.5))  # short, so that the buffer is not cut
    with load_backend("qwen3-mlx-simul", "digits") as other:
        on_torch, on_mlx = (stream(each, clip.audio, policy=policy) for each in (backend, other))
    whole = transcribe(
        clip.audio, engine=backend.engine, options=DecodingOptions(), prompt="", language="en"
    )

    assert clip.text == "".join(word.text for word in whole.words) == on_torch.text
    assert committed(on_torch) == committed(on_mlx)
    for ours, theirs in zip(on_torch.tokens, on_mlx.tokens, strict=True):
        assert ours.probability == pytest.approx(theirs.probability, abs=1e-3)
    torch_stats, mlx_stats = on_torch.processor.stats, on_mlx.processor.stats
    assert torch_stats.encoder_frames == mlx_stats.encoder_frames
    assert torch_stats.decoder_positions == mlx_stats.decoder_positions


@pytest.mark.slow
def test_a_cut_inside_a_word_costs_no_other_word(backend):
    """The cut at 8 s leaves half of a digit in the buffer, which the forced text does not have."""
    clips = [
        connected_digits(6, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8) for seed in range(5)
    ]
    audio = np.concatenate([clip.audio for clip in clips])
    driver = stream(backend, audio, language="en", policy="alignatt")

    assert " ".join(clip.text for clip in clips) == driver.text.strip()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "tlh"}, "expected one of: ar, cs"),
        ({"language": "de"}, "the model digits recognises en only"),
        ({"prompt": "Ann <|im_end|>"}, "prompt or keyterms contains '<|im_end|>'"),
    ],
)
def test_an_unsupported_stream_is_refused_when_it_is_opened(backend, options, message):
    """No option is dropped in silence."""
    with pytest.raises(OptionError) as caught:
        backend.create_processor(**options)
    assert message in str(caught.value)
