"""ScriptedBackend: a backend whose engine reads coded audio, the reference for every rule."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from wlk_core.errors import OptionError, StreamClosed
from wlk_core.online import (
    AlignAttRecognizer,
    AlignedHypothesis,
    Hypothesis,
    LocalAgreementRecognizer,
    OnlineStream,
    WorkCounters,
)
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.words import Word
from wlk_core.testing.coded_audio import CELL_SAMPLES, read_tokens
from wlk_core.testing.scripted_alignatt import (
    BUFFER_SECONDS,
    FRAME_SAMPLES,
    POLICY,
    attended_word,
)
from wlk_core.testing.scripted_native import CellState, NativeRecognizer, hear_cell
from wlk_core.testing.scripted_spec import SCRIPTED_SPEC

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from wlk_core.backend import BackendSpec
    from wlk_core.online import AlignedWord, Recognizer
    from wlk_core.testing.coded_audio import DetectedToken
    from wlk_core.testing.scripted_pieces import Piece

__all__ = ["DIGIT_WORDS", "EngineFault", "ScriptedBackend"]

DIGIT_WORDS = (
    " zero", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine",
)  # fmt: skip
_ENOUGH = CELL_SAMPLES // 2  # of its first samples must be there for a token to be heard


class EngineFault(RuntimeError):  # noqa: N818 -- what was asked for, not a mistake
    """A fault that a test asked the scripted engine for."""


@attrs.define
class ScriptedBackend:
    """
    A backend without a model: token *i* of coded audio is heard as ``vocabulary[i - 1]``.

    A token is heard by its first half cell, so audio that is cut anywhere gives it to exactly one
    side.  Audio that is not coded is heard as silence.  The stream option `policy` chooses one of
    the shapes that recognizers have: local-agreement, alignatt or native.  `fail_at` names engine
    calls, counted from 1 over all streams, that raise EngineFault instead of answering.  With
    `changes_mind` an engine that transcribes a buffer takes a token that the buffer's end cuts off
    for the next word of the vocabulary, as models do, and corrects itself when it hears the rest.
    """

    vocabulary: Sequence[str] = DIGIT_WORDS
    tick_seconds: float = 1.0
    fail_at: frozenset[int] = attrs.field(default=frozenset(), converter=frozenset)
    changes_mind: bool = attrs.field(default=False, kw_only=True)
    calls: int = attrs.field(default=0, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return SCRIPTED_SPEC

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a stream with a recognizer of the `policy` given over the scripted engine."""
        if self._is_closed:
            raise StreamClosed("the backend is closed; load it again")
        self.spec.check_language(language)
        self.spec.check_task(task)
        chosen = self.spec.stream_options(options)
        tick, policy = chosen["tick_seconds"], chosen["policy"]
        if policy == "native" and tick is not None:
            raise OptionError(
                "scripted: with policy native every cell of 80 ms is a step; leave tick_seconds out"
            )
        tick = self.tick_seconds if tick is None else tick

        def make() -> Recognizer:
            if policy == "alignatt":
                return AlignAttRecognizer(
                    self._attend,
                    policy=POLICY,
                    frame_samples=FRAME_SAMPLES,
                    language=language,
                    tick_seconds=tick,
                    buffer_seconds=BUFFER_SECONDS,
                )
            if policy == "native":
                return NativeRecognizer(self._hear, language=language)
            return LocalAgreementRecognizer(self._transcribe, language=language, tick_seconds=tick)

        return OnlineStream(make)

    def warmup(self) -> None:
        """Run the engine once on silence."""
        self._transcribe(np.zeros(CELL_SAMPLES, dtype=np.float32), prompt="", language=None)

    def close(self) -> None:
        """Refuse new streams."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _transcribe(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        del prompt  # a script knows its text
        self._begin_call()
        words = tuple(
            Word(
                token.start / SAMPLE_RATE,
                token.end / SAMPLE_RATE,
                self._heard_as(token, is_cut_off=token.end == len(audio)),
                1.0,
            )
            for token in self._tokens(audio)
        )
        work = WorkCounters(
            encoder_frames=-(-len(audio) // 160),
            decoder_positions=len(words) + 1,
            decoder_forwards=len(words) + 1,
            detokenised_ids=len(words),
        )
        return Hypothesis(words=words, language=language or "en", work=work)

    def _attend(
        self,
        audio: NDArray[np.float32],
        *,
        first_sample: int,
        context: tuple[AlignedWord, ...],
        prompt: str,
        language: str | None,
        is_last: bool,
    ) -> AlignedHypothesis:
        del prompt, is_last  # a script knows its text
        self._begin_call()
        words = tuple(
            attended_word(
                token,
                self._heard_as(token, is_cut_off=token.end == len(audio)),
                first_sample=first_sample,
                samples=len(audio),
            )
            for token in self._tokens(audio)[len(context) :]
        )
        forced = sum(len(one.frames) for one in context)
        pieces = sum(len(one.frames) for one in words)
        work = WorkCounters(
            encoder_frames=-(-len(audio) // 160),
            decoder_positions=forced + pieces + 1,
            decoder_forwards=pieces + 1,
            detokenised_ids=pieces,
        )
        return AlignedHypothesis(words=words, language=language or "en", work=work)

    def _hear(
        self, audio: NDArray[np.float32], state: CellState
    ) -> tuple[tuple[Piece, ...], CellState]:
        self._begin_call()
        return hear_cell(audio, state, self.vocabulary)

    def _heard_as(self, token: DetectedToken, *, is_cut_off: bool) -> str:
        is_mistaken = self.changes_mind and is_cut_off
        return self.vocabulary[token.id % len(self.vocabulary) if is_mistaken else token.id - 1]

    def _begin_call(self) -> None:
        """Count an engine call, and fail if a test asked for it."""
        with self._lock:
            self.calls += 1
            call = self.calls
        if call in self.fail_at:
            raise EngineFault(f"engine call {call} was scripted to fail")

    def _tokens(self, audio: NDArray[np.float32]) -> list[DetectedToken]:
        return [
            token
            for token in read_tokens(audio)
            if token.id <= len(self.vocabulary)
            and token.end - token.origin >= _ENOUGH > token.start - token.origin
        ]
