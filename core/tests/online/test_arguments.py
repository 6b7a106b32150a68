"""Any object passed to a stream as audio or time is accepted or refused with a clear error."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes
import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.errors import ClockError, WLKError
from wlk_core.plugins import ChangeSpeaker
from wlk_core.processor import MAX_STREAM_SECONDS

RATE = 16_000


class Incomparable:
    """An object that cannot be compared."""

    def __eq__(self, other):
        """Fail."""
        raise RuntimeError("no comparison")

    __hash__ = None


NUMBERS = st.one_of(
    st.integers(),
    st.integers().map(lambda power: 10 ** (abs(power) % 6_000)),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.floats(width=32).map(np.float32),
    st.integers(-9, 9).map(np.int64),
)
ANYTHING = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.complex_numbers(),
    st.text(st.characters(), max_size=5),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.builds(dict),
    st.builds(Incomparable),
    arrays(scalar_dtypes(), array_shapes(max_dims=2, max_side=4)),
)


def refused_or_none(call):
    """Make the call; return its error, which has one line, or None."""
    try:
        call()
    except WLKError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 500
        return error
    return None


@given(first=ANYTHING, second=ANYTHING)
@example(first=1e300, second=None)
@example(first=Decimal("1e999999999"), second=Decimal("sNaN"))
@example(first=np.float32(0.5), second=10**5000)
@example(first=0.5, second=Incomparable())
def test_any_audio_and_time_is_accepted_or_refused_by_name(coded_engine, speech, first, second):
    """Each call succeeds or raises a one-line WLKError, and the stream goes on."""
    driver = StreamDriver(coded_engine().stream())
    stream = driver.processor
    calls = [
        lambda: stream.insert_audio_chunk(first),
        lambda: stream.insert_audio_chunk(np.zeros(160, np.float32), second),
        lambda: stream.insert_audio_chunk(first, second),
        lambda: stream.end_silence(first),
        lambda: stream.end_silence(0.0, second),
        lambda: stream.new_speaker(ChangeSpeaker(1, first)),
        lambda: stream.new_speaker(SimpleNamespace(start=0.5, speaker=first)),
    ]
    for call in calls:
        refused_or_none(call)
    end = stream.start_silence().processed_up_to
    stream.insert_audio_chunk(speech.audio[: 2 * RATE])
    emission = stream.finish()

    assert 0 <= end <= 3 * MAX_STREAM_SECONDS
    assert emission.processed_up_to == pytest.approx(end + 2, rel=1e-12)
    assert all(end <= token.start <= end + 2 for token in emission.committed)


@pytest.mark.parametrize(
    "half", [0.5, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.float64(0.5)], ids=repr
)
def test_a_duration_is_any_real_number(engine, half):
    """Numbers of Python, its standard library and numpy move the clock alike."""
    stream = engine.stream()
    stream.end_silence(half)
    stream.insert_audio_chunk(np.zeros(RATE, np.float32), half + 2)
    stream.end_silence(np.int64(2))
    emission = stream.new_speaker(ChangeSpeaker(3, half))

    assert emission.processed_up_to == 4.5


@pytest.mark.parametrize("seconds", [MAX_STREAM_SECONDS + 1, 1e300, 10**400])
def test_a_time_has_a_limit(engine, seconds):
    """A silence or an end time beyond ten years is refused and changes nothing."""
    stream = engine.stream()
    stream.insert_audio_chunk(np.zeros(RATE, np.float32))
    with pytest.raises(ClockError, match="ten years"):
        stream.end_silence(seconds)
    with pytest.raises(ClockError, match="ten years"):
        stream.insert_audio_chunk(np.zeros(RATE, np.float32), seconds)

    assert stream.finish().processed_up_to == 1
