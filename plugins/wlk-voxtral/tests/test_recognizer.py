"""The recognizer of a Voxtral stream around a scripted model."""

from __future__ import annotations

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver, noise
from wlk_core.plugins import OnlineStream, WorkCounters
from wlk_frameworks.features import LogMel
from wlk_voxtral.recognizer import voxtral_recognizer
from wlk_voxtral.speculative import TokenPrediction

PAD, WORD = 2, 3


@attrs.frozen
class State:
    """The steps of an utterance decoded so far, with the silence before it."""

    steps: int
    nbytes: int = 100


@attrs.define
class ScriptedDecoder:
    """A model that predicts scripted ids at certain steps, and keeps the features it receives."""

    ids: dict
    delay: int = 6
    calls: int = 0
    mel: list = attrs.field(factory=list)

    def __call__(self, mel, state):
        """Return the scripted ids of the steps, PAD elsewhere."""
        self.calls += 1
        self.mel.append(mel)
        first, count = (0, len(mel) // 8) if state is None else (state.steps, len(mel) // 8)
        steps = [step - 1 - self.delay for step in range(first, first + count)]
        predictions = [TokenPrediction(self.ids.get(step, PAD), 0.5) for step in steps if step >= 0]
        work = WorkCounters(decoder_positions=count, encoder_frames=len(mel))
        return predictions, State(first + count), work


def script(**words):
    """Return the ids of words by the step of their marker, such as at5=" one"."""
    ids = {}
    for key, word in words.items():
        step = int(key.removeprefix("at"))
        ids[step] = WORD
        ids |= {step + 1 + i: 4 + value for i, value in enumerate(word.encode())}
    return ids


@pytest.fixture(scope="module")
def stream_of(tokenizer):
    """Return a function that opens a stream on a scripted model and returns its driver."""

    def open_stream(decoder):
        return StreamDriver(
            OnlineStream(
                lambda: voxtral_recognizer(
                    decoder, tokenizer=tokenizer, delay_steps=decoder.delay, log_mel=LogMel()
                )
            )
        )

    return open_stream


WORDS = script(at5=" one", at15=" né", at30="你好", at45=" four")


@pytest.mark.parametrize("delay", [3, 6, 10])
def test_words_end_at_their_markers_whatever_the_delay(stream_of, delay):
    """Step number k ends at 0.08 (k + 1) s of the utterance."""
    driver = stream_of(ScriptedDecoder(WORDS, delay=delay))
    driver.feed(noise(5.0))
    driver.finish()

    assert driver.text == "one né你好 four"
    assert [token.end for token in driver.tokens] == pytest.approx([0.48, 1.28, 2.48, 3.68])


@settings(
    deadline=None, derandomize=True, max_examples=40
)  # features of seconds of audio each time
@given(cuts=st.lists(st.integers(0, 9000), min_size=1, max_size=12), seed=st.integers(0, 2**16))
def test_features_are_those_of_the_whole_utterance_however_it_was_cut(stream_of, cuts, seed):
    """Every step is decoded once, in order, and its features are equal to the last bit."""
    audio = noise(1.0, level=0.1, seed=seed)[: sum(cuts)]
    decoder = ScriptedDecoder({})
    driver = stream_of(decoder)
    for piece in np.split(audio, np.cumsum(cuts)[:-1]):
        driver.insert(piece)
        driver.drain()
    driver.finish()
    steps = -(-len(audio) // 1280)
    whole = np.zeros(200 + 1280 * (1 + steps + 17) + 40, dtype=np.float32)
    whole[200 + 1280 : 200 + 1280 + len(audio)] = audio

    if len(audio):
        np.testing.assert_array_equal(LogMel()(whole), np.concatenate(decoder.mel))
    else:
        assert decoder.calls == 0


@pytest.mark.parametrize("samples", [1, 799, 1279, 1280, 1281, 8999, 9000, 9001, 40_000])
def test_a_word_at_the_very_end_comes_out(stream_of, samples):
    """The marker of the last step of audio, and its text, are emitted during the padding."""
    last = -(-samples // 1280) - 1
    driver = stream_of(ScriptedDecoder(script(**{f"at{last}": " last"})))
    driver.insert(noise(3.0)[:samples])
    driver.finish()

    assert driver.text == "last"
    assert driver.tokens[0].end == pytest.approx(samples / 16_000)


def test_text_that_outlasts_the_padding_is_decoded_to_its_end(stream_of):
    """A word that has more pieces than the padding has steps is not cut off."""
    driver = stream_of(ScriptedDecoder(script(at11=" Donaudampfschifffahrtsgesellschaft")))
    driver.insert(noise(1.0)[:15_360])
    driver.finish()

    assert driver.text == "Donaudampfschifffahrtsgesellschaft"


def test_the_growing_word_is_the_hypothesis(stream_of):
    """The hypothesis is the part of the word decoded so far, in whole characters."""
    driver = stream_of(ScriptedDecoder(script(at2=" né!")))
    shown = []
    for step in np.split(noise(1.6)[:25_600], 20):
        driver.insert(step)
        driver.drain()
        shown.append(driver.processor.get_buffer().text)

    assert [text for text in shown if text] == ["n", "n", "né", "né!"]
    assert driver.text == "né!"
