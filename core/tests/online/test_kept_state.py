"""A decoder that keeps state between its calls: where it is cut, when it forgets, what it holds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import Attended, AttendedWord, AttentionRecognizer, OnlineStream
from wlk_core.streaming import AlignAtt, Word
from wlk_core.testing import StreamDriver

RATE = 16_000
FRAME = 640
WINDOW = 8 * RATE


class Keeping:
    """A decoder that hears a word in the first 0.4 s of every second, and counts what it keeps."""

    def __init__(self):
        self.calls = []
        self.nbytes = 0
        self.runs = 0

    def __call__(self, audio, *, first_sample, context, prompt, language, is_last):
        """Return every word behind the context whose first half is in the audio."""
        self.calls.append((first_sample, len(audio)))
        self.nbytes = len(audio)
        end = (first_sample + len(audio)) / RATE
        heard = []
        for second in range(int(end) + 1):
            start, stop = second - first_sample / RATE, second + 0.4 - first_sample / RATE
            if (start + stop) / 2 >= 0 and second + 0.2 <= end:
                word = Word(start, min(stop, len(audio) / RATE), f" w{second}")
                heard.append(AttendedWord(word=word, frames=(int(word.middle * RATE / FRAME),)))
        return Attended(words=tuple(heard[len(context) :]), language="en")

    def forget(self):
        """Let go of everything."""
        self.runs += 1
        self.nbytes = 0


def over(decoder, **chosen):
    """Return a recognizer whose buffer is cut at whole windows."""
    return AttentionRecognizer(
        decoder,
        policy=AlignAtt(border_frames=5, rewind_frames=50),
        frame_samples=FRAME,
        cut_samples=WINDOW,
        kept=decoder,
        **chosen,
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.05, 6.0), min_size=1, max_size=20))
def test_cuts_fall_on_whole_windows_and_lose_no_word(seconds):
    """However audio comes, the decoder's windows stay where they are in the run."""
    decoder = Keeping()
    driver = StreamDriver(OnlineStream(lambda: over(decoder)))
    for length in seconds:
        driver.insert(np.zeros(round(length * RATE), dtype=np.float32))
        driver.drain()
    driver.finish()

    heard = sum(round(length * RATE) for length in seconds) / RATE
    spoken = [f" w{second}" for second in range(int(heard) + 1) if second + 0.2 <= heard]
    assert "".join(spoken).strip() == "".join(token.text for token in driver.tokens).strip()
    assert all(first % WINDOW == 0 for first, _ in decoder.calls)
    assert max(length for _, length in decoder.calls) <= 20 * RATE


def test_state_is_counted_and_forgotten_with_each_run():
    """A pause ends a run: nothing of it is kept, and what is held says so."""
    decoder = Keeping()
    recognizer = over(decoder)
    began, empty = decoder.runs, recognizer.state_bytes
    recognizer.feed(np.zeros(3 * RATE, dtype=np.float32))
    while recognizer.step(is_last=False) is not None:
        pass

    assert decoder.nbytes == 3 * RATE
    assert recognizer.state_bytes >= empty + 4 * 3 * RATE + decoder.nbytes

    recognizer.next_run(" w2")

    assert began + 1 == decoder.runs
    assert empty == recognizer.state_bytes


def test_cuts_at_parts_of_a_frame_are_refused():
    """The decoder counts whole frames from the cut."""
    with pytest.raises(ValueError, match="whole frames of 640 samples, got 1000"):
        AttentionRecognizer(
            Keeping(),
            policy=AlignAtt(border_frames=5, rewind_frames=50),
            frame_samples=FRAME,
            cut_samples=1000,
        )
