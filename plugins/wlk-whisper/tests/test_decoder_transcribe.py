"""The LocalAgreement engine call, over a network that follows a script."""

from __future__ import annotations

from pathlib import Path

import attrs
from faster_whisper.feature_extractor import FeatureExtractor
import numpy as np
import pytest
import tokenizers

from wlk_core.testing import noise
import wlk_whisper
from wlk_whisper.checkpoint import Checkpoint
from wlk_whisper.decoder.engine import Engine, StreamSettings
from wlk_whisper.decoder.language import detect_language
from wlk_whisper.decoder.network import Forward
from wlk_whisper.decoder.transcribe import transcribe

SHARED = Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json"
VOCABULARY = tokenizers.Tokenizer.from_file(str(SHARED))
SOT, EOT, NO_SPEECH, NO_TIMESTAMPS = 50258, 50257, 50362, 50363
AUDIO = noise(3.0, level=0.1, seed=1)


def ids(text):
    """Return the ids of *text*."""
    return VOCABULARY.encode(text, add_special_tokens=False).ids


@attrs.define(eq=False)
class Script:
    """
    A network that says *tokens* behind any prompt, and looks at them in order.

    Text token i is looked at from position ``25 i`` on.  *languages* are ranked as they stand;
    *no_speech* is the probability of that.
    """

    tokens: tuple = ()
    languages: tuple = ("en",)
    no_speech: float = 0.0
    vocabulary: int = 51865
    text_positions: int = 448
    mels: int = 80
    alignment_heads: tuple = ((0, 0), (1, 0))
    asked: list = attrs.Factory(list)
    windows: list = attrs.Factory(list)

    def encode(self, features):
        """Take the window down."""
        self.windows.append(features.shape)
        return Positions(features.shape[1] // 2)

    def begin(self, encoded):
        """Return a run."""
        return Reader(self, encoded.positions)


@attrs.frozen
class Positions:
    """An encoded stretch."""

    positions: int


@attrs.define(eq=False)
class Reader:
    """Read the script out."""

    script: Script
    positions: int
    fed: list = attrs.Factory(list)

    def forward(self, tokens, *, keep=(-1,), attend=False):
        """Make the next token of the script the likeliest by far."""
        first = len(self.fed)
        self.fed += [int(token) for token in tokens[0]]
        self.script.asked.append(tuple(self.fed))
        rows = [self._logits(first + place) for place in range(tokens.shape[1])]
        logits = np.stack([rows[place] for place in keep])[None]
        attention = None
        if attend:
            start = self.fed.index(NO_TIMESTAMPS)
            attention = np.full((2, len(rows), self.positions), 1e-3, dtype=np.float32)
            for row in range(len(rows)):
                place = max(0, first + row - start)
                attention[:, row, 25 * place : 25 * (place + 1)] = 1.0
            attention = attention[None] / attention.sum(-1, keepdims=True)
        return Forward(logits=logits, attention=attention)

    def reorder(self, rows):
        """Rows are alike."""

    def _logits(self, place):
        logits = np.zeros(self.script.vocabulary, dtype=np.float32)
        fed = self.fed[: place + 1]
        if SOT not in fed:
            return logits
        if fed == [SOT] and not self.script.no_speech:
            for rank, code in enumerate(self.script.languages):
                logits[VOCABULARY.token_to_id(f"<|{code}|>")] = 30.0 - rank
        if fed[-1] == SOT and self.script.no_speech:
            others = np.log(self.script.vocabulary - 1)
            odds = np.log(self.script.no_speech / (1 - self.script.no_speech))
            logits[NO_SPEECH] = others + odds
        said = fed[fed.index(SOT) + 3 :]
        if NO_TIMESTAMPS not in fed and len(fed) >= fed.index(SOT) + 3:
            script = (*self.script.tokens, EOT)
            logits[script[min(len(said), len(script) - 1)]] = 40.0
        return logits


def hear(script, *, audio=AUDIO, prompt="", language="en", known=None, **settings):
    """Return what the engine call makes of *audio*."""
    engine = Engine(
        network=script,
        vocabulary=VOCABULARY,
        extractor=FeatureExtractor(),
        checkpoint=Checkpoint(name="script", languages=known),
    )
    return transcribe(
        audio,
        engine=engine,
        settings=StreamSettings(**settings),
        prompt=prompt,
        language=language,
    )


def spoken(*words):
    """Return the tokens of *words*, each between its timestamps, half a second apart."""
    tokens = []
    for place, word in enumerate(words):
        tokens += [50364 + 25 * place, *ids(word), 50364 + 25 * place + 20]
    return tuple(tokens)


def test_words_come_with_the_times_at_which_they_were_looked_at():
    """Timestamps in the text are left out, and the attention of a second pass counts."""
    found = hear(Script(spoken(" one", " two", " three")))

    assert [" one", " two", " three"] == [word.text for word in found.words]
    for place, word in enumerate(found.words):
        assert 0.5 * place == pytest.approx(word.start, abs=0.1)
        assert 0.5 * (place + 1) == pytest.approx(word.end, abs=0.1)


def test_no_prompt_means_no_prompt_tokens():
    """Without earlier text the first pass is the start of the transcript (defect B57)."""
    without, given = Script(spoken(" one")), Script(spoken(" one"))
    hear(without)
    hear(given, prompt="zero")

    assert (SOT, 50259, 50359) == without.asked[0]
    assert (50361, *ids(" zero"), SOT, 50259, 50359) == given.asked[0]


def test_a_long_prompt_leaves_half_of_the_room():
    """Its end is what counts."""
    script = Script(spoken(" one"))
    hear(script, prompt="seven " * 400)

    assert 1 + 223 + 3 == len(script.asked[0])
    assert ids(" seven") == list(script.asked[0][1:2])


@pytest.mark.parametrize(("probability", "words"), [(0.85, 1), (0.95, 0)])
def test_a_window_without_speech_gives_no_words(probability, words):
    """What is nine times out of ten no speech is none, whatever is said."""
    found = hear(Script(spoken(" one"), no_speech=probability))

    assert words == len(found.words)
    assert "en" == found.language


def test_the_language_is_detected_among_those_the_checkpoint_knows():
    """The likeliest of them is prompted and reported."""
    script = Script(spoken(" one"), languages=("fr", "de", "en"))
    found = hear(script, language=None, known=("en", "de"))

    assert "de" == found.language
    assert (SOT,) == script.asked[0]
    assert VOCABULARY.token_to_id("<|de|>") == script.asked[1][1]


def test_an_english_model_is_asked_for_no_language():
    """Its prompt has neither language nor task, and costs no pass."""
    script = Script(vocabulary=51864)
    language, work = detect_language(script, Positions(10), VOCABULARY)

    assert "en" == language
    assert [] == script.asked
    assert work.decoder_forwards is None


def test_language_and_task_are_those_of_the_call():
    """Nothing of a stream is on the engine."""
    script = Script(spoken(" one"))
    hear(script, language="de", task="translate")

    assert (SOT, 50261, 50358) == script.asked[0]


@pytest.mark.parametrize(("is_fitted", "frames"), [(False, 3000), (True, 400)])
def test_the_window_is_full_or_fitted(is_fitted, frames):
    """Three seconds of audio and half a second behind them take four, or thirty."""
    script = Script(spoken(" one"))
    found = hear(script, is_fitted=is_fitted)

    assert [(80, frames)] == script.windows
    assert frames == found.work.encoder_frames


def test_all_work_is_counted():
    """Detection, decoding and alignment, every pass with its positions."""
    script = Script(spoken(" one", " two"))
    found = hear(script, language=None)
    # One for the language, the prompt of three, six tokens, and start, text and end once more.
    assert 1 + 1 + 6 + 1 == found.work.decoder_forwards == found.work.host_syncs
    assert 1 + 3 + 6 + (3 + 1 + 2 + 1) == found.work.decoder_positions


def test_a_decoder_that_runs_away_is_stopped():
    """A text that does not end costs what the audio can hold, and its loop is cut."""
    script = Script((50364, *ids(" one") * 400))
    found = hear(script)

    assert found.work.decoder_forwards < 16 + 15 * 3
    assert len(found.words) <= 12
