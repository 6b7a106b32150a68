from __future__ import annotations

import pytest

from wlk_conformance.material import CodedMaterial, DigitMaterial, choose_material
from wlk_conformance.scripted import ScriptedBackend
from wlk_core.testing import CodedToken, read_tokens


def test_a_scripted_engine_gets_coded_audio():
    """Coded audio says exactly the words that come with it."""
    material = choose_material(ScriptedBackend(), "digits")
    fed = material.speech(5, seed=1)
    heard = [material.vocabulary[token.id - 1] for token in read_tokens(fed.audio)]

    assert "coded" == material.kind
    assert heard == [word.text for word in fed.words]


@pytest.mark.parametrize(("model", "knows"), [("digits", True), ("base", False), (None, False)])
def test_other_engines_get_spoken_digits(model, knows):
    """Only a digits checkpoint is sworn to hear the digits."""
    material = choose_material(object(), model)

    assert knows == material.knows_words
    assert 4 == len(material.speech(4, seed=2).words)


@pytest.mark.parametrize("material", [CodedMaterial(), DigitMaterial()], ids=["coded", "digits"])
def test_a_recipe_gives_the_same_audio_again(material):
    """The same seed gives the same samples, and another one does not."""
    one, same, other = (material.speech(3, seed=seed).audio for seed in (7, 7, 8))

    assert one.tobytes() == same.tobytes()
    assert one.tobytes() != other.tobytes()


def test_gaps_are_kept():
    """A fixed gap lies between every two coded words."""
    fed = CodedMaterial().speech(4, seed=1, gap=(0.48, 0.48), tail=0.0)
    gaps = [after.start - word.end for word, after in zip(fed.words, fed.words[1:], strict=False)]

    assert pytest.approx([0.48] * 3) == gaps
    assert pytest.approx(fed.words[-1].end) == fed.seconds


def test_a_script_is_taken_as_it_is():
    """Tokens given one by one lie in their cells."""
    fed = CodedMaterial(vocabulary=("a", "b")).script([CodedToken(2, 1, 2)], cells=5)

    assert (0.4, "b") == (fed.seconds, fed.text)
