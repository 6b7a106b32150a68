from __future__ import annotations

import pytest

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.stimuli import CodedSpeech, DigitSpeech, choose_speech_source
from wlk_core.testing import CodedToken, read_tokens


def test_a_scripted_engine_gets_coded_audio():
    """Coded audio contains exactly the words that come with it."""
    source = choose_speech_source(ScriptedBackend(), "digits")
    stimulus = source.speech(5, seed=1)
    decoded = [source.vocabulary[token.id - 1] for token in read_tokens(stimulus.audio)]

    assert "coded" == source.kind
    assert decoded == [word.text for word in stimulus.words]


@pytest.mark.parametrize(
    ("model", "is_recognisable"), [("digits", True), ("base", False), (None, False)]
)
def test_other_engines_get_spoken_digits(model, is_recognisable):
    """Only a digits checkpoint must recognise the digits."""
    source = choose_speech_source(object(), model)

    assert is_recognisable == source.is_recognisable
    assert 4 == len(source.speech(4, seed=2).words)


@pytest.mark.parametrize("source", [CodedSpeech(), DigitSpeech()], ids=["coded", "digits"])
def test_a_recipe_gives_the_same_audio_again(source):
    """The same seed gives the same samples, and another seed does not."""
    first, same, other = (source.speech(3, seed=seed).audio for seed in (7, 7, 8))

    assert first.tobytes() == same.tobytes()
    assert first.tobytes() != other.tobytes()


def test_gaps_are_kept():
    """A fixed gap lies between every two coded words."""
    stimulus = CodedSpeech().speech(4, seed=1, gap=(0.48, 0.48), tail=0.0)
    gaps = [
        after.start - word.end
        for word, after in zip(stimulus.words, stimulus.words[1:], strict=False)
    ]

    assert pytest.approx([0.48] * 3) == gaps
    assert pytest.approx(stimulus.words[-1].end) == stimulus.seconds


def test_a_script_is_encoded_as_it_is():
    """Listed tokens lie in their cells."""
    stimulus = CodedSpeech(vocabulary=("a", "b")).script([CodedToken(2, 1, 2)], cells=5)

    assert (0.4, "b") == (stimulus.seconds, stimulus.text)
