"""AlignAtt's engine call over a decoder that follows a script and looks where it says."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
from faster_whisper.tokenizer import Tokenizer
import numpy as np
import pytest
import tokenizers

from wlk_core import AttendedWord, AttentionRecognizer, OnlineStream, Work
from wlk_core.streaming import AlignAtt, Word
from wlk_core.testing import StreamDriver
import wlk_whisper
from wlk_whisper.decoder.attend import FRAME_SAMPLES, AttendSettings, attend
from wlk_whisper.decoder.engine import StreamSettings
from wlk_whisper.decoder.network import Forward
from wlk_whisper.decoder.rules import Rules

RATE = 16_000
WIDTH = 16  # positions to either side of its middle that a word is looked for at
VOCABULARY = tokenizers.Tokenizer.from_file(
    str(Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json")
)
TOKENIZER = Tokenizer(VOCABULARY, True, task="transcribe", language="en")
START = [*TOKENIZER.sot_sequence, TOKENIZER.no_timestamps]


@attrs.frozen
class Said:
    """A token and the position of the run, 20 ms each, in whose middle it is spoken."""

    token: int
    position: int


def sentence(text, *, first=25, every=25):
    """Return the tokens of *text*, one every half second from half a second on."""
    return [
        Said(token, first + every * place) for place, token in enumerate(TOKENIZER.encode(text))
    ]


def ramp(first, behind):
    """Return audio that says where in the run it is: sample n is n millionths."""
    return (np.arange(first, behind) / 1e6).astype(np.float32)


@attrs.frozen
class Stretch:
    """What was encoded: positions *first* up to *first + positions* of the run."""

    first: int
    positions: int


@attrs.define(eq=False)
class ScriptedRun:
    """A decoder that says the script behind what it was made to begin with."""

    engine: ScriptedEngine
    stretch: Stretch
    fed: list[int] = attrs.Factory(list)

    def forward(self, tokens, *, keep=(-1,), attend=False):
        """Return logits that are sure of the next token, attention that looks at its place."""
        logits, attention = [], []
        for token in tokens[0].tolist():
            self.fed.append(token)
            chosen, place = self.engine.follow(self.fed, self.stretch)
            row = np.zeros(self.engine.vocabulary, dtype=np.float32)
            row[chosen] = 30.0
            if token == TOKENIZER.sot and self.engine.is_silent:
                row[TOKENIZER.no_speech] = 60.0
            logits.append(row)
            away = np.abs(np.arange(self.stretch.positions) - place)
            peak = np.maximum(WIDTH - away, 0.01).astype(np.float32)
            attention.append(peak / peak.sum())
        self.engine.prompts.append(list(self.fed))
        return Forward(
            logits=np.stack([logits[index] for index in keep])[None],
            attention=np.stack(attention)[None, None] if attend else None,
        )

    def reorder(self, rows):
        """Keep the one row there is."""
        assert list(rows) == [0]


@attrs.define(eq=False)
class ScriptedEngine:
    """An engine whose decoder hears a script in a ramp."""

    script: list[Said]
    begin_suppressed: tuple[int, ...] | None = None
    is_silent: bool = False
    text_positions: int = 448
    vocabulary: int = 51865
    prompts: list[list[int]] = attrs.Factory(list)

    @property
    def network(self):
        """The engine runs itself."""
        return self

    def encode(self, audio, *, is_fitted):
        """Read the place in the run off the first sample."""
        first = round(float(audio[0]) * 1e6)
        positions = -(-len(audio) // FRAME_SAMPLES) + 25
        return Stretch(round(first / FRAME_SAMPLES), positions), Work(encoder_frames=2 * positions)

    def detect_language(self, encoded):
        """Hear French."""
        return "fr", Work(decoder_positions=1)

    def tokenizer(self, language, task):
        """Return the tokenizer of the digits."""
        return Tokenizer(VOCABULARY, True, task=task, language=language)

    def rules(self, tokenizer, *, has_timestamps):
        """Return Whisper's rules."""
        return Rules.of(
            tokenizer,
            has_timestamps=has_timestamps,
            begin_suppressed=self.begin_suppressed,
            suppressed=(),
        )

    def begin(self, encoded):
        """Begin a run."""
        return ScriptedRun(self, encoded)

    def follow(self, fed, stretch):
        """Return the token behind *fed* and the position of the stretch it is heard at."""
        heard = [
            said
            for said in self.script
            if 0 <= said.position - stretch.first < stretch.positions - 25
        ]
        if TOKENIZER.no_timestamps not in fed:
            return 100, stretch.positions - 1
        count = len(fed) - 1 - fed.index(TOKENIZER.no_timestamps)
        if count >= len(heard):
            return TOKENIZER.eot, stretch.positions - 26
        return heard[count].token, heard[count].position - stretch.first


def hear(
    engine, seconds, *, first=0.0, context=(), prompt="", language="en", is_last=False, **settings
):
    """Return what *engine* hears from *first* to *seconds* of the run."""
    audio = ramp(round(first * RATE), round(seconds * RATE))
    return attend(
        audio,
        engine=engine,
        stream=StreamSettings(is_fitted=True),
        settings=AttendSettings(**settings),
        context=context,
        prompt=prompt,
        language=language,
        is_last=is_last,
    )


def said_in(heard):
    """Return the text of what was heard."""
    return "".join(one.word.text for one in heard.words).strip()


def forced(said):
    """Return the words of tokens as committed ones."""
    return tuple(
        AttendedWord(
            word=Word(
                one.position / 50 - 0.1, one.position / 50 + 0.1, TOKENIZER.decode([one.token])
            ),
            frames=(one.position,),
            tokens=(one.token,),
        )
        for one in said
    )


def test_words_come_with_the_frames_their_tokens_were_heard_at():
    """Every token of every word has the position that the script says."""
    script = sentence(" one two unbelievable three")
    heard = hear(ScriptedEngine(script), 8.0)
    frames = [frame for one in heard.words for frame in one.frames]

    assert [" one", " two", " unbelievable", " three"] == [one.word.text for one in heard.words]
    # The first row has little to be compared with: all it looks at stands out.
    assert abs(frames[0] - script[0].position) <= WIDTH
    assert [said.position for said in script[1:]] == pytest.approx(frames[1:], abs=4)
    assert [said.token for said in script] == [token for one in heard.words for token in one.tokens]
    assert all(one.word.start <= one.frames[0] / 50 <= one.word.end for one in heard.words[1:])


def test_the_decoder_goes_on_behind_committed_words():
    """Committed words are forced, and only what follows is returned."""
    script = sentence(" one two three four")
    engine = ScriptedEngine(script)
    heard = hear(engine, 4.0, context=forced(script[:2]))

    assert engine.prompts[0] == [*START, script[0].token, script[1].token]
    assert [" three", " four"] == [one.word.text for one in heard.words]


def test_no_prompt_means_no_prompt_tokens():
    """Without text before the audio the decoder begins with the start of the transcript."""
    engine = ScriptedEngine(sentence(" one"))
    hear(engine, 2.0)

    assert engine.prompts[0] == START


def test_the_static_prompt_stays_and_the_scrolling_one_keeps_its_end():
    """What scrolls is cut at the front to max_context_tokens; what is static is not."""
    engine = ScriptedEngine(sentence(" one"))
    hear(engine, 2.0, prompt="a b c d e", static_prompt="names: Ann", max_context_tokens=2)
    before = [TOKENIZER.sot_prev, *TOKENIZER.encode(" names: Ann"), *TOKENIZER.encode(" d e")]

    assert engine.prompts[0] == [*before, *START]


def test_a_context_that_leaves_no_room_gives_way_from_its_front():
    """The prompt goes first, then the oldest words; there is always room for new text."""
    script = sentence(" one" * 600, every=2)
    engine = ScriptedEngine(script)
    heard = hear(
        engine, 25.0, context=forced(script[:500]), prompt="some text before", language="en"
    )

    assert len(engine.prompts[0]) < engine.text_positions
    assert engine.prompts[0][: len(START)] == START
    assert max(len(prompt) for prompt in engine.prompts) <= engine.text_positions
    assert heard.words


def test_the_end_may_come_right_behind_committed_words():
    """What a text must not begin with may well follow what was committed."""
    script = sentence(" one two")
    engine = ScriptedEngine(script, begin_suppressed=(TOKENIZER.eot,))

    assert hear(engine, 2.0, context=forced(script)).words == ()
    assert len(engine.prompts) == 1


def test_a_window_without_speech_has_no_words_unless_it_holds_committed_ones():
    """The model's own word for silence counts only for a whole window."""
    script = sentence(" one two")

    assert hear(ScriptedEngine(script, is_silent=True), 2.0).words == ()
    assert (
        len(hear(ScriptedEngine(script, is_silent=True), 2.0, context=forced(script[:1])).words)
        == 1
    )


def test_attention_that_goes_astray_ends_the_text_before_that_word():
    """A token heard farther back than rewind_frames is not said, and nothing behind it is."""
    script = [*sentence(" one two three four"), Said(TOKENIZER.encode(" five")[0], 20)]
    engine = ScriptedEngine(script)
    heard = hear(engine, 6.0, rewind_frames=50)

    assert [" one", " two", " three", " four"] == [one.word.text for one in heard.words]
    assert len(engine.prompts) == 5


def test_the_last_call_keeps_the_words_that_attention_went_astray_behind():
    """No more audio comes, so nothing waits: a full stop heard too far back takes no word along."""
    script = [*sentence(" one two three"), Said(TOKENIZER.encode(".")[0], 20)]
    engine = ScriptedEngine(script)

    assert "one two" == said_in(hear(engine, 6.0, rewind_frames=50))
    assert "one two three." == said_in(hear(engine, 6.0, rewind_frames=50, is_last=True))


def test_a_loop_keeps_its_first_round_and_a_word_said_over_and_over_all_of_them():
    """What is heard at one place is said once; what is heard farther on each time was spoken."""
    seven = TOKENIZER.encode(" seven")[0]
    stuck = [*sentence(" one"), *(Said(seven, 60 - place % 2) for place in range(40))]
    spoken = [Said(seven, 20 + 20 * place) for place in range(16)]

    assert "one seven" == said_in(hear(ScriptedEngine(stuck), 8.0, is_last=True))
    assert " seven" * 12 == " " + said_in(hear(ScriptedEngine(spoken), 8.0, is_last=True))


def test_a_language_with_long_spellings_keeps_its_committed_words():
    """However many tokens may follow, committed words are forced, and a few more have room."""
    script = sentence(" one" * 120, every=4)
    engine = ScriptedEngine(script)
    hear(engine, 20.0, context=forced(script[:120]), prompt="before", language="hi")

    assert [said.token for said in script[:120]] == engine.prompts[0][-120:]


def test_a_character_of_which_bytes_are_missing_waits():
    """Of a character in several tokens nothing is said before the last of them."""
    tokens = TOKENIZER.encode(" 龘")
    assert len(tokens) > 1
    script = [*sentence(" one"), *(Said(token, 60 + place) for place, token in enumerate(tokens))]

    assert [" one"] == [one.word.text for one in hear(ScriptedEngine(script[:-1]), 3.0).words]
    assert " one 龘" == "".join(one.word.text for one in hear(ScriptedEngine(script), 3.0).words)


def test_punctuation_behind_a_committed_word_is_a_word_of_its_own():
    """A comma that comes later does not take the committed word with it."""
    script = [*sentence(" one"), Said(TOKENIZER.encode(",")[0], 40), *sentence(" two", first=60)]
    heard = hear(ScriptedEngine(script), 3.0, context=forced(script[:1]))

    assert [",", " two"] == [one.word.text for one in heard.words]


def test_work_is_counted_position_by_position():
    """The prompt is one forward, each further token another; all ids are made text twice."""
    script = sentence(" one two three")
    work = hear(ScriptedEngine(script), 4.0, language=None).work

    assert work.decoder_forwards == 4
    assert work.decoder_positions == len(START) + 3 + 1
    assert work.detokenised_ids == 6


@pytest.mark.parametrize("chunk", [0.1, 1.0, 30.0])
def test_a_stream_says_the_whole_script_once_whatever_the_chunks(chunk):
    """Two minutes through a bounded buffer: cut, forced and prompted, every word comes once."""
    text = " one two three four five six seven eight nine zero" * 20
    script = sentence(text, every=30)
    engine = ScriptedEngine(script, begin_suppressed=())

    def decode(audio, *, first_sample, context, prompt, language, is_last):
        return attend(
            audio,
            engine=engine,
            stream=StreamSettings(is_fitted=True),
            settings=AttendSettings(),
            context=context,
            prompt=prompt,
            language=language,
            is_last=is_last,
        )

    driver = StreamDriver(
        OnlineStream(
            partial(
                AttentionRecognizer,
                decode,
                policy=AlignAtt(border_frames=25, rewind_frames=200),
                frame_samples=FRAME_SAMPLES,
                language="en",
                buffer_seconds=6.0,
            )
        )
    )
    driver.feed(ramp(0, 122 * RATE), chunk_seconds=chunk)
    driver.finish()

    assert text.strip() == driver.text
    assert [said.position / 50 for said in script] == pytest.approx(
        [(token.start + token.end) / 2 for token in driver.tokens], abs=0.4
    )
