"""Streams on torch whose engine calls are taken together get what each of them gets alone."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

from wlk_conformance.testing import connected_digits
from wlk_core import load_backend
from wlk_whisper.engine.alignatt import transcribe_aligned
from wlk_whisper.engine.engine import DecodingOptions, transcribe
from wlk_whisper.engine.network import run_alone

RATE = 16_000
SPEECH = connected_digits(12, seed=5).audio


@pytest.fixture(scope="module")
def whisper():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("whisper", "digits") as loaded:
        yield loaded


requests = st.fixed_dictionaries(
    {
        "start": st.integers(0, len(SPEECH) - RATE // 2),
        "length": st.integers(RATE // 2, 5 * RATE),
        "is_aligned": st.booleans(),
        "beam_size": st.sampled_from([1, 1, 2]),
        "language": st.sampled_from(["en", None]),
        "prompt": st.sampled_from(["", "one two", "seven eight nine zero one"]),
        "context": st.sampled_from(["padded", "full", "fitted"]),
        "is_last": st.booleans(),
    }
)


@pytest.mark.slow
@given(group=st.lists(requests, min_size=2, max_size=5))
@settings(max_examples=8)
def test_any_group_of_engine_calls_has_the_answers_of_each_alone(whisper, group):
    """Windows, prompts, beams and policies of any kind."""
    engine = whisper.engine
    calls = [engine_call(engine, **request) for request in group]
    alone = [run_alone(engine.network, call()) for call in calls]

    for expected, answer in zip(alone, engine.run(calls), strict=True):
        assert (expected.language, expected.work) == (answer.language, answer.work)
        assert len(expected.words) == len(answer.words)
        for word, other in zip(expected.words, answer.words, strict=True):
            assert getattr(word, "frames", ()) == getattr(other, "frames", ())
            word, other = (getattr(entry, "word", entry) for entry in (word, other))  # noqa: PLW2901 -- the word of an aligned word
            assert (word.text, word.start, word.end) == (other.text, other.start, other.end)
            assert other.probability == pytest.approx(word.probability, abs=1e-4)


def engine_call(
    engine, *, start, length, is_aligned, beam_size, language, prompt, context, is_last
):
    """Return what begins the engine call of a request."""
    audio = SPEECH[start : start + length]
    options = DecodingOptions(beam_size=beam_size, context=context)
    common = {"engine": engine, "options": options, "prompt": prompt, "language": language}
    if not is_aligned:
        return partial(transcribe, audio, **common)
    return partial(
        transcribe_aligned,
        audio,
        context=(),
        is_last=is_last,
        **common,
    )
