"""The digits checkpoint on every engine: the same words, times and probabilities."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from wlk_conformance.testing import StreamDriver, clip_names, connected_digits, load_clip
from wlk_core import load_backend

MODULES = {"whisper": "transformers", "mlx-whisper": "mlx_whisper"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.skipif(find_spec(module) is None, reason=module))
        for name, module in MODULES.items()
    ],
)
def other(request):
    """Return each of the other engines with the bundled checkpoint."""
    with load_backend(request.param, "digits") as loaded:
        yield loaded


def transcribe(backend, audio, **options):
    """Return the driver of a finished stream of *audio*."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio)
    driver.finish()
    return driver


def texts(driver):
    """Return the committed words without their spacing."""
    return [token.text.strip() for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("name", clip_names())
def test_the_words_are_those_of_faster_whisper(other, backend, name):
    """One checkpoint in float32: the same text, times within a frame, and probabilities."""
    audio = load_clip(name).audio
    ours = transcribe(other, audio, policy="local-agreement", tick_seconds=3.0)
    theirs = transcribe(backend, audio, tick_seconds=3.0)

    assert texts(ours) == texts(theirs)
    for our_token, their_token in zip(ours.tokens, theirs.tokens, strict=True):
        assert their_token.start == pytest.approx(our_token.start, abs=0.021)
        assert their_token.end == pytest.approx(our_token.end, abs=0.021)
        assert their_token.probability == pytest.approx(our_token.probability, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_gives_the_words_of_the_beam_of_faster_whisper(other, backend, seed):
    """Ranking, length and pruning are CTranslate2's."""
    audio = connected_digits(8, seed=seed).audio
    options = {"beam_size": 4, "language": "en"}

    assert texts(transcribe(backend, audio, **options)) == texts(
        transcribe(other, audio, policy="local-agreement", **options)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo", "fast"])
def test_alignatt_recognises_the_digits_with_fewer_forwards(other, name):
    """Committed text is not decoded again, which saves at least half of the forwards."""
    clip = load_clip(name)
    drivers = [
        transcribe(other, clip.audio, policy=policy) for policy in ("alignatt", "local-agreement")
    ]
    forwards = [driver.processor.stats.decoder_forwards for driver in drivers]

    assert clip.text.split() == texts(drivers[0]) == texts(drivers[1])
    assert 2 * forwards[0] <= forwards[1]


@pytest.mark.slow
def test_a_fitted_window_gives_the_words_of_the_full_one(backend):
    """The checkpoint was trained on shorter input, so less is encoded for the same words."""
    audio = load_clip("demo").audio
    full, fitted = (
        transcribe(backend, audio, audio_context=context) for context in ("full", "fitted")
    )
    ticks = full.processor.stats.encoder_frames // 3000

    assert texts(fitted) == texts(full)
    assert full.processor.stats.encoder_frames == 3000 * ticks
    assert fitted.processor.stats.encoder_frames < full.processor.stats.encoder_frames / 2
