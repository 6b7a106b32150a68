"""AlignAtt's engine call over a decoder that follows a script and attends to its positions."""

from __future__ import annotations

import attrs
from faster_whisper.tokenizer import Tokenizer
import numpy as np
import pytest

from wlk_core.plugins import AlignedWord, WorkCounters
from wlk_core.streaming import Word
from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.alignatt import transcribe_aligned
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.engine import DecodingOptions
from wlk_whisper.engine.features import SAMPLES_PER_ENCODER_FRAME
from wlk_whisper.engine.logit_filters import LogitFilter
from wlk_whisper.engine.model_files import read_tokenizer
from wlk_whisper.engine.network import ALONE, ChoiceTooClose, DecoderOutput, Rounding, run_alone
from wlk_whisper.engine.prompt import MAX_CONTEXT_TOKENS

RATE = 16_000
WIDTH = 16  # encoder frames on either side of the attended one that get attention, too
TAIL = 25  # encoder frames of silence after the audio
HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)
TOKENIZER = Tokenizer(HF_TOKENIZER, True, task="transcribe", language="en")
START = [*TOKENIZER.sot_sequence, TOKENIZER.no_timestamps]


@attrs.frozen
class SpokenToken:
    """A token and the encoder frame of the utterance, 20 ms each, in whose middle it is spoken."""

    token: int
    frame: int


def sentence(text, *, first=25, every=25):
    """Return the tokens of *text*, one every half second from half a second on."""
    return [
        SpokenToken(token, first + every * index)
        for index, token in enumerate(TOKENIZER.encode(text))
    ]


def ramp(first, stop):
    """Return audio that contains its position in the utterance: sample n is n millionths."""
    return (np.arange(first, stop) / 1e6).astype(np.float32)


@attrs.frozen
class EncoderOutput:
    """The encoder frames *first* up to *first + frames* of the utterance."""

    first: int
    frames: int


@attrs.define(eq=False)
class ScriptedDecoder:
    """A decoder that emits the script after its forced tokens."""

    engine: ScriptedEngine
    encoder_output: EncoderOutput
    inputs: list[int] = attrs.Factory(list)

    def forward(self, tokens, *, logits_to_keep=(-1,), output_attention=False):
        """Return logits that are sure of the next token, and attention to its frame."""
        logits, attention = [], []
        for token in tokens[0].tolist():
            self.inputs.append(token)
            following, frame = self.engine.follow(self.inputs, self.encoder_output)
            row = np.zeros(self.engine.n_vocab, dtype=np.float32)
            row[following] = 30.0
            if token == TOKENIZER.sot and self.engine.is_silent:
                row[TOKENIZER.no_speech] = 60.0
            logits.append(row)
            distance = np.abs(np.arange(self.encoder_output.frames) - frame)
            peak = np.maximum(WIDTH - distance, 0.01).astype(np.float32)
            attention.append(peak / peak.sum())
        self.engine.inputs.append(list(self.inputs))
        return DecoderOutput(
            logits=np.stack([logits[index] for index in logits_to_keep])[None],
            cross_attention=np.stack(attention)[None, None] if output_attention else None,
            rounding=self.engine.rounding,
        )

    def reorder_cache(self, rows):
        """Keep the single row."""
        assert list(rows) == [0]


@attrs.define(eq=False)
class ScriptedEngine:
    """An engine whose decoder finds a script in a ramp."""

    script: list[SpokenToken]
    begin_suppress_tokens: tuple[int, ...] | None = None
    is_silent: bool = False
    n_text_ctx: int = 448
    n_vocab: int = 51865
    rounding: Rounding = ALONE
    alignment_heads: AlignmentHeads = attrs.Factory(
        lambda: AlignmentHeads(pairs=(), are_known=False)
    )
    inputs: list[list[int]] = attrs.Factory(list)

    @property
    def network(self):
        """The engine runs itself."""
        return self

    def encode(self, audio, context, language):
        """Read the position in the utterance off the first sample; detect French."""
        first = round(float(audio[0]) * 1e6)
        frames = -(-len(audio) // SAMPLES_PER_ENCODER_FRAME) + TAIL
        output = EncoderOutput(round(first / SAMPLES_PER_ENCODER_FRAME), frames)
        yield from ()  # an engine call yields passes
        return output, language or "fr", None, WorkCounters(encoder_frames=2 * frames)

    def tokenizer(self, language, task):
        """Return the tokenizer of the digits."""
        return Tokenizer(HF_TOKENIZER, True, task=task, language=language)

    def logit_filter(self, tokenizer, *, has_timestamps):
        """Return Whisper's rules."""
        return LogitFilter.from_tokenizer(
            tokenizer,
            has_timestamps=has_timestamps,
            begin_suppress_tokens=self.begin_suppress_tokens,
            suppress_tokens=(),
        )

    def new_decoder(self, encoder_output):
        """Return a decoder without tokens."""
        return ScriptedDecoder(self, encoder_output)

    def follow(self, inputs, encoder_output):
        """Return the token after *inputs* and the frame of the output that it attends to."""
        spoken = [
            entry
            for entry in self.script
            if 0 <= entry.frame - encoder_output.first < encoder_output.frames - TAIL
        ]
        if TOKENIZER.no_timestamps not in inputs:
            return 100, encoder_output.frames - 1
        count = len(inputs) - 1 - inputs.index(TOKENIZER.no_timestamps)
        if count >= len(spoken):
            return TOKENIZER.eot, encoder_output.frames - TAIL - 1
        return spoken[count].token, spoken[count].frame - encoder_output.first


def run(
    engine, seconds, *, first=0.0, context=(), prompt="", language="en", is_last=False, **options
):
    """Return the result of *engine* for the audio from *first* to *seconds*."""
    passes = transcribe_aligned(
        ramp(round(first * RATE), round(seconds * RATE)),
        engine=engine,
        options=DecodingOptions(context="fitted"),
        **options,
        context=context,
        prompt=prompt,
        language=language,
        is_last=is_last,
    )
    return run_alone(engine.network, passes)


def texts(hypothesis):
    """Return the text of each word."""
    return [aligned.word.text for aligned in hypothesis.words]


def committed(spoken):
    """Return tokens as committed words."""
    return tuple(
        AlignedWord(
            word=Word(
                entry.frame / 50 - 0.1, entry.frame / 50 + 0.1, TOKENIZER.decode([entry.token])
            ),
            frames=(entry.frame,),
            tokens=(entry.token,),
        )
        for entry in spoken
    )


def test_tokens_have_the_frames_where_they_end():
    """Every token of every word ends where the next one begins, and the last one with its word."""
    script = sentence(" one two unbelievable three")
    hypothesis = run(ScriptedEngine(script), 8.0)
    frames = [frame for aligned in hypothesis.words for frame in aligned.frames]
    tokens = [token for aligned in hypothesis.words for token in aligned.tokens]

    assert [" one", " two", " unbelievable", " three"] == texts(hypothesis)
    middles = [entry.frame for entry in script]
    assert all(
        middle < frame <= following
        for middle, frame, following in zip(middles, frames, middles[1:], strict=False)
    )
    assert middles[-1] <= frames[-1]
    assert [entry.token for entry in script] == tokens
    assert all(
        aligned.word.end == pytest.approx(aligned.frames[-1] / 50, abs=0.05)
        for aligned in hypothesis.words
    )


def test_the_decoder_continues_after_committed_words():
    """Committed words are forced, and only what follows is returned."""
    script = sentence(" one two three four")
    engine = ScriptedEngine(script)
    hypothesis = run(engine, 4.0, context=committed(script[:2]))

    assert engine.inputs[0] == [*START, script[0].token, script[1].token]
    assert [" three", " four"] == texts(hypothesis)


def test_the_static_prompt_stays_and_the_scrolling_one_keeps_its_end():
    """The scrolling prompt is cut at its front to MAX_CONTEXT_TOKENS; the static one is not."""
    engine = ScriptedEngine(sentence(" one"))
    run(engine, 2.0, prompt="a b" * 100, static_prompt="names: Ann")
    scrolling = TOKENIZER.encode(" " + "a b" * 100)[-MAX_CONTEXT_TOKENS:]
    previous = [TOKENIZER.sot_prev, *TOKENIZER.encode(" names: Ann"), *scrolling]

    assert engine.inputs[0] == [*previous, *START]


def test_a_prefix_that_leaves_no_room_is_cut_at_its_front():
    """The prompt is dropped first, then the oldest words; new text always has positions."""
    script = sentence(" one" * 600, every=2)
    engine = ScriptedEngine(script)
    hypothesis = run(
        engine, 25.0, context=committed(script[:500]), prompt="some text before", language="en"
    )

    assert len(engine.inputs[0]) < engine.n_text_ctx
    assert engine.inputs[0][: len(START)] == START
    assert max(len(tokens) for tokens in engine.inputs) <= engine.n_text_ctx
    assert hypothesis.words


def test_the_end_of_text_may_directly_follow_committed_words():
    """What a text must not begin with may follow a committed prefix."""
    script = sentence(" one two")
    engine = ScriptedEngine(script, begin_suppress_tokens=(TOKENIZER.eot,))

    assert run(engine, 2.0, context=committed(script)).words == ()
    assert len(engine.inputs) == 1


def test_a_window_without_speech_has_no_words_unless_it_contains_committed_ones():
    """The probability of no speech applies to whole windows only."""
    script = sentence(" one two")
    silent = run(ScriptedEngine(script, is_silent=True), 2.0)
    continued = run(ScriptedEngine(script, is_silent=True), 2.0, context=committed(script[:1]))

    assert silent.words == ()
    assert len(continued.words) == 1


def test_a_decoding_loop_keeps_one_repetition_and_spoken_repetitions_stay():
    """Repetitions at one frame are a loop; repetitions at advancing frames were spoken."""
    seven = TOKENIZER.encode(" seven")[0]
    stuck = [*sentence(" one"), *(SpokenToken(seven, 60 - index % 2) for index in range(40))]
    spoken = [SpokenToken(seven, 20 + 20 * index) for index in range(16)]

    assert [" one", " seven"] == texts(run(ScriptedEngine(stuck), 8.0, is_last=True))
    assert [" seven"] * 12 == texts(run(ScriptedEngine(spoken), 8.0, is_last=True))


def test_a_loop_in_a_common_pass_is_decoded_again_alone():
    """Whether the attention advances with each repetition is not decided within the rounding."""
    seven = TOKENIZER.encode(" seven")[0]
    stuck = [SpokenToken(seven, 60 - index % 2) for index in range(40)]

    with pytest.raises(ChoiceTooClose):
        run(ScriptedEngine(stuck, rounding=Rounding(attention=1e-9)), 8.0, is_last=True)


def test_punctuation_after_a_committed_word_is_a_word_of_its_own():
    """A comma that comes later does not change the committed word."""
    script = [
        *sentence(" one"),
        SpokenToken(TOKENIZER.encode(",")[0], 40),
        *sentence(" two", first=60),
    ]
    hypothesis = run(ScriptedEngine(script), 3.0, context=committed(script[:1]))

    assert [",", " two"] == texts(hypothesis)
