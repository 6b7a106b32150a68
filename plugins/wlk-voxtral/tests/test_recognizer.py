"""A recognizer for delayed streams around a scripted model."""

from __future__ import annotations

import base64
import json

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import BackendError, OnlineStream, WorkCounters
from wlk_core.streaming import LogMel, TokenPrediction
from wlk_core.testing import StreamDriver, noise
from wlk_voxtral.recognizer import VoxtralRecognizer, silence_features
from wlk_voxtral.tokenizer import TekkenTokenizer

PAD, WORD = 2, 3
TEKKEN = TekkenTokenizer.from_json(
    json.dumps(
        {
            "config": {"default_vocab_size": 260, "default_num_special_tokens": 4},
            "vocab": [
                {"rank": rank, "token_bytes": base64.b64encode(bytes([rank])).decode()}
                for rank in range(256)
            ],
            "special_tokens": [
                {"rank": rank, "token_str": name}
                for rank, name in enumerate(("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]"))
            ],
            "audio": {
                "transcription_format": "streaming",
                "transcription_delay_ms": 480,
                "streaming_n_left_pad_tokens": 32,
            },
        }
    )
)


@attrs.frozen
class State:
    """How many cells of a run were heard, the silence in front of it included."""

    cells: int
    nbytes: int = 100


@attrs.define
class Script:
    """A model that says certain ids at certain steps, and remembers the features it was given."""

    said: dict
    delay: int = 6
    fail_at: frozenset = frozenset()
    calls: int = 0
    mel: list = attrs.field(factory=list)

    def __call__(self, mel, state):
        """Hear the cells and say what the script says for them."""
        self.calls += 1
        if self.calls in self.fail_at:
            raise RuntimeError("out of memory")
        self.mel.append(mel)
        first, cells = (0, len(mel) // 8) if state is None else (state.cells, len(mel) // 8)
        steps = [cell - 1 - self.delay for cell in range(first, first + cells)]
        choices = [TokenPrediction(self.said.get(step, PAD), 0.5) for step in steps if step >= 0]
        return (
            choices,
            State(first + cells),
            WorkCounters(decoder_positions=cells, encoder_frames=len(mel)),
        )


def spell(**words):
    """Return the script of words by the step of their marker: at5=" one"."""
    said = {}
    for at, word in words.items():
        step = int(at.removeprefix("at"))
        said[step] = WORD
        said |= {step + 1 + i: 4 + value for i, value in enumerate(word.encode())}
    return said


def stream_of(script):
    """Return a driver of a stream on the scripted model."""
    return StreamDriver(
        OnlineStream(
            lambda: VoxtralRecognizer(
                script, tekken=TEKKEN, delay_steps=script.delay, log_mel=LogMel()
            )
        )
    )


WORDS = spell(at5=" one", at15=" né", at30="你好", at45=" four")


@pytest.mark.parametrize("delay", [3, 6, 10])
def test_words_end_at_their_markers_whatever_the_delay(delay):
    """The step number k ends at 0.08 (k + 1) s of the run."""
    driver = stream_of(Script(WORDS, delay=delay))
    driver.feed(noise(5.0))
    driver.finish()

    assert "one né你好 four" == driver.text
    assert [0.48, 1.28, 2.48, 3.68] == pytest.approx([token.end for token in driver.tokens])


@settings(
    deadline=None, derandomize=True, max_examples=40
)  # features of seconds of audio each time
@given(st.lists(st.integers(0, 9000), min_size=1, max_size=12), st.integers(0, 2**16))
def test_features_are_those_of_the_whole_run_however_it_was_cut(cuts, seed):
    """Every cell is heard once, in order, with the samples around it, bit by bit."""
    audio = noise(1.0, level=0.1, seed=seed)[: sum(cuts)]
    script = Script({})
    driver = stream_of(script)
    for piece in np.split(audio, np.cumsum(cuts)[:-1]):
        driver.insert(piece)
        driver.drain()
    driver.finish()
    cells = -(-len(audio) // 1280)
    whole = np.zeros(200 + 1280 * (1 + cells + 17) + 40, dtype=np.float32)
    whole[200 + 1280 : 200 + 1280 + len(audio)] = audio

    if len(audio):
        np.testing.assert_array_equal(LogMel()(whole), np.concatenate(script.mel))
    else:
        assert 0 == script.calls


@pytest.mark.parametrize("samples", [1, 799, 1279, 1280, 1281, 8999, 9000, 9001, 40_000])
def test_a_word_at_the_very_end_comes_out(samples):
    """The marker of the last step of audio and its text come from the silence behind it."""
    last = -(-samples // 1280) - 1
    driver = stream_of(Script(spell(**{f"at{last}": " last"})))
    driver.insert(noise(3.0)[:samples])
    driver.finish()

    assert "last" == driver.text
    assert samples / 16_000 == pytest.approx(driver.tokens[0].end)


def test_text_that_goes_on_behind_the_padding_is_heard_to_its_end():
    """A word of more pieces than the padding has room for is not cut off."""
    driver = stream_of(Script(spell(at11=" Donaudampfschifffahrtsgesellschaft")))
    driver.insert(noise(1.0)[:15_360])
    driver.finish()

    assert "Donaudampfschifffahrtsgesellschaft" == driver.text


def test_a_word_divided_by_a_silence_is_whole():
    """What is said of a word when the silence begins is kept, and nothing is said twice."""
    driver = stream_of(Script(spell(at12=" transcription")))
    driver.feed(noise(1.0))
    assert () == driver.tokens
    driver.start_silence()
    assert "transcription" == driver.text
    driver.start_silence()
    driver.processor.end_silence(30.0)
    driver.feed(noise(1.2))
    driver.finish()

    assert "transcription transcription" == driver.text
    assert driver.tokens[1].start >= 31.0


@pytest.mark.parametrize("chunk", [0.08, 0.3, 2.0])
def test_times_do_not_depend_on_the_chunks(chunk):
    """A quiet that comes with the same chunk says nothing about a word in front of it."""
    audio = np.concatenate([noise(3.0, level=0.01, seed=4), noise(3.0, level=1e-6, seed=5)])
    audio[35_840:44_800] += noise(1.0, level=0.2, seed=6)[:8_960]  # up to the end of cell 34
    script = spell(at34=" word")
    drivers = [stream_of(Script(script)) for _ in range(2)]
    for driver, seconds in zip(drivers, (6.0, chunk), strict=True):
        driver.feed(audio, chunk_seconds=seconds)
        driver.finish()

    assert pytest.approx(2.24) == drivers[0].tokens[0].start
    assert drivers[0].tokens == drivers[1].tokens


def test_the_growing_word_is_shown():
    """The hypothesis is what was said of the word so far."""
    driver = stream_of(Script(spell(at2=" seven")))
    shown = []
    for cell in np.split(noise(1.6)[:25_600], 20):
        driver.insert(cell)
        driver.drain()
        shown.append(driver.processor.get_buffer().text)

    assert ["s", "se", "sev", "seve", "seven"] == [text for text in shown if text]
    assert "seven" == driver.text


@pytest.mark.parametrize("call", range(1, 8))
def test_a_call_that_fails_can_be_repeated(call):
    """Nothing is taken before the model has answered."""
    script = Script(WORDS, fail_at=frozenset({call}))
    driver, faults = stream_of(script), 0
    for chunk in np.split(noise(5.0), 5):
        driver.insert(chunk)
        for _ in range(2):
            try:
                driver.drain()
            except BackendError:
                faults += 1
    for _ in range(2):
        try:
            driver.finish()
            break
        except BackendError:
            faults += 1

    assert 1 == faults
    assert "one né你好 four" == driver.text


def test_state_and_work_of_a_long_run_do_not_grow():
    """An hour holds what a minute holds."""
    driver = stream_of(Script({}))
    held, work = [], [0]
    for _ in range(6):
        driver.feed(noise(4.0))
        held.append(driver.processor.stats.state_bytes)
        work.append(driver.processor.stats.decoder_positions)

    assert max(held[1:]) == min(held[1:])
    assert max(np.diff(work)[1:]) <= 51


@pytest.mark.parametrize("cells", [1, 3])
def test_silent_cells_are_what_a_model_hears_of_a_silent_recording(cells):
    """Eight frames each, the same as those of zeros within a stream."""
    script = Script({})
    driver = stream_of(script)
    driver.insert(np.zeros(16_000, dtype=np.float32))
    driver.finish()

    np.testing.assert_array_equal(
        np.concatenate(script.mel)[: 8 * cells], silence_features(LogMel(), cells)
    )
