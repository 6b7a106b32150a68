"""The scripted backend, whose engine reads coded audio instead of running a model."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.interfaces import (
    CHANGES_ITS_MIND,
    MOVED_SECONDS,
    MOVES_TIMES,
    RECENT_SECONDS,
    STAYS_UNDECIDED,
)
from wlk_conformance.scripted.native import NativeRecognizer, cut_step, decode_step
from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_conformance.testing.coded_audio import CELL_SAMPLES, HALF_CELL, read_tokens
from wlk_conformance.testing.digits import DIGIT_WORDS
from wlk_core.plugins import (
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    ModelNotFoundError,
    WorkCounters,
)
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from wlk_conformance.testing.coded_audio import DetectedToken
    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
from wlk_frameworks.long_form import LongFormRecognizer

FRAME_SAMPLES = 320  # 20 ms, the stride of a Whisper encoder
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE
POLICY = AlignAtt(border_frames=8, rewind_frames=25)  # 0.16 s, 0.5 s
BUFFER_SECONDS = 8.0  # of audio kept at most, while committed words can be released
MEL_FRAME_SAMPLES = 160  # 10 ms, the hop of the features that a real engine would compute


def _aligned_word(
    token: DetectedToken, text: str, *, first_sample: int, samples: int, seed: int = 0
) -> AlignedWord:
    """
    Return *text* aligned with *token*, its pieces spread over the frames of the token.

    Frames jitter as attention does, drawn from *seed*, and lie within the *samples* samples of the
    buffer, which begins at sample *first_sample* of the utterance.
    """
    pieces = max(2, len(text.encode()) // 2)
    last_frame = max(0, -(-samples // FRAME_SAMPLES) - 1)
    frames: list[int] = []
    for sample in np.linspace(token.start, token.end - 1, pieces).astype(int).tolist():
        frame = sample // FRAME_SAMPLES + _jitter(token.id, first_sample + sample, seed=seed)
        frames.append(min(max(0, frame), last_frame))
    return AlignedWord(
        min(frames) * FRAME_SECONDS,
        (max(frames) + 1) * FRAME_SECONDS,
        text,
        1.0,
        frames=tuple(frames),
    )


def _jitter(token: int, sample: int, *, seed: int = 0) -> int:
    """Return -1, 0 or 1 frames, drawn from *seed*, the token id and its sample in the utterance."""
    drawn = blake2b(f"{seed}:{token}:{sample}".encode(), digest_size=2).digest()
    return int.from_bytes(drawn) % 3 - 1


@attrs.define
class ScriptedEngine:
    """
    An engine without a model: token *i* of coded audio is the word ``vocabulary[i - 1]``.

    A token is recognised by its first half cell, so that wherever audio is cut, exactly one side
    has it.  Audio that is not coded counts as silence.  `habits` are those of models that the
    engine imitates; see SupportsHabits.
    """

    vocabulary: Sequence[str] = DIGIT_WORDS
    habits: frozenset[str] = frozenset()

    def transcribe(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None, number: int = 0
    ) -> Hypothesis:
        """Return the words of *audio*, hypothesis *number* of its stream, for LocalAgreement."""
        del prompt  # a script already has its text
        words = tuple(
            Word(
                self._moved(token, token.start, samples=len(audio)),
                self._moved(token, token.end, samples=len(audio)),
                self._spelling(token, samples=len(audio), number=number),
                1.0,
            )
            for token in self._tokens(audio)
        )
        work = WorkCounters(
            encoder_frames=-(-len(audio) // MEL_FRAME_SAMPLES),
            decoder_positions=len(words) + 1,
            decoder_forwards=len(words) + 1,
            detokenised_ids=len(words),
        )
        return Hypothesis(words=words, language=language or "en", work=work)

    def align(
        self,
        audio: NDArray[np.float32],
        *,
        first_sample: int,
        remainder_samples: int,
        context: tuple[AlignedWord, ...],
        prompt: str,
        language: str | None,
        is_last: bool,
    ) -> AlignedHypothesis:
        """Return the words after *context* with the frames they attend to, as AlignAtt needs."""
        del remainder_samples, prompt, is_last  # a script already has its text
        tokens, known = self._tokens(audio), len(context)
        if context and tokens:
            # A cut may have left too little of the first word to be detected; then the first token
            # lies after that word.
            middle = (tokens[0].start + tokens[0].end) / 2 / SAMPLE_RATE
            if middle > context[0].end:
                known -= 1
        words = tuple(
            _aligned_word(
                token,
                self._spelling(token, samples=len(audio)),
                first_sample=first_sample,
                samples=len(audio),
                seed=len(audio) if MOVES_TIMES in self.habits else 0,
            )
            for token in tokens[known:]
        )
        forced = sum(len(word.frames) for word in context)
        pieces = sum(len(word.frames) for word in words)
        work = WorkCounters(
            encoder_frames=-(-len(audio) // MEL_FRAME_SAMPLES),
            decoder_positions=forced + pieces + 1,
            decoder_forwards=pieces + 1,
            detokenised_ids=pieces,
        )
        return AlignedHypothesis(words=words, language=language or "en", work=work)

    def _spelling(self, token: DetectedToken, *, samples: int, number: int | None = None) -> str:
        """
        Return the word of *token* in a buffer of *samples* samples, or a later one by habit.

        *number* counts the hypotheses of a stream that compares them, and is None in others.
        """
        rest = (samples - token.end) / SAMPLE_RATE  # seconds after the word
        later = 0  # words on in the vocabulary
        if CHANGES_ITS_MIND in self.habits and not rest:
            later = 1
        elif CHANGES_ITS_MIND in self.habits and number is not None and rest < RECENT_SECONDS:
            later = 2
        if STAYS_UNDECIDED in self.habits and number is not None and number % 2:
            later += 3
        return self.vocabulary[(token.id - 1 + later) % len(self.vocabulary)]

    def _moved(self, token: DetectedToken, sample: int, *, samples: int) -> float:
        """Return the time of *sample*, an end of *token*, in a buffer of *samples* samples."""
        is_whole = token.end - token.start >= CELL_SAMPLES
        if MOVES_TIMES in self.habits and is_whole:
            sample += round(MOVED_SECONDS * SAMPLE_RATE) * _jitter(token.id, sample, seed=samples)
        return min(max(0, sample), samples) / SAMPLE_RATE

    def _tokens(self, audio: NDArray[np.float32]) -> list[DetectedToken]:
        return [
            token
            for token in read_tokens(audio)
            if token.id <= len(self.vocabulary)
            and token.end - token.origin >= HALF_CELL > token.start - token.origin
        ]


class ScriptedBackend(LoadedBackend[ScriptedEngine]):
    """
    A backend without a model: its engine reads coded audio, see ScriptedEngine.

    The stream option `policy` chooses the kind of recognizer: local-agreement, alignatt, native or
    long-form.  `fail_before` has the numbers of the engine calls that fail, counted from 1 over all
    streams; see EngineFaults.
    """

    def __init__(
        self,
        spec: BackendSpec = SCRIPTED_SPEC,
        *,
        vocabulary: Sequence[str] = DIGIT_WORDS,
        fail_before: Collection[int] = (),
    ) -> None:
        engine = ScriptedEngine(vocabulary)
        super().__init__(spec, engine, open_stream=open_stream, warmup=_warmup)
        if fail_before:
            EngineFaults.of(self.engine_calls).fail_before = frozenset(fail_before)

    @property
    def vocabulary(self) -> Sequence[str]:
        """The words of the engine; see wlk_conformance.SupportsCodedAudio."""
        return self.engine.vocabulary

    @vocabulary.setter
    def vocabulary(self, words: Sequence[str]) -> None:
        self.engine.vocabulary = words

    @property
    def habits(self) -> frozenset[str]:
        """The habits of models that the engine imitates; see wlk_conformance.SupportsHabits."""
        return self.engine.habits

    @habits.setter
    def habits(self, habits: frozenset[str]) -> None:
        self.engine.habits = habits


def load(spec: BackendSpec, model: str | None) -> ScriptedBackend:
    """
    Return the scripted backend.

    Raises:
        ModelNotFoundError: *model* is not "digits", the only one.

    """
    if model not in (None, "digits"):
        raise ModelNotFoundError(
            f"the scripted backend has one model, digits; got {model!r}; "
            "omit it, or use: wlk-conformance scripted --model digits"
        )
    return ScriptedBackend(spec)


def open_stream(
    engine: ScriptedEngine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that creates the recognizer of the policy; see LoadedBackend."""
    language = config.language
    if config.policy == "native":
        decode_own = partial(decode_step, vocabulary=engine.vocabulary)
        decode = calls.wrap(decode_own, cut=cut_step)
        return partial(NativeRecognizer, decode, language=language)
    tick_seconds = config.options["tick_seconds"]
    if config.policy == "alignatt":
        return partial(
            AlignAttRecognizer,
            calls.wrap(engine.align),
            policy=POLICY,
            frame_samples=FRAME_SAMPLES,
            language=language,
            tick_seconds=tick_seconds,
            buffer_seconds=BUFFER_SECONDS,
        )
    numbers = count()  # for the hypotheses of this stream

    def transcribe_next(
        audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        return engine.transcribe(audio, prompt=prompt, language=language, number=next(numbers))

    transcribe = calls.wrap(transcribe_next)
    if config.policy == "long-form":
        return partial(LongFormRecognizer, transcribe, language=language)
    return partial(
        LocalAgreementRecognizer, transcribe, language=language, tick_seconds=tick_seconds
    )


def _warmup(engine: ScriptedEngine, calls: EngineCalls) -> None:
    silence = np.zeros(CELL_SAMPLES, dtype=np.float32)
    calls.wrap(engine.transcribe)(silence, prompt="", language=None)
