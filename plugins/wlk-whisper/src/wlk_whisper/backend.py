"""The backend of an engine over any Network: streams of either policy on one loaded model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wlk_core import (
    SAMPLE_RATE,
    AgreementRecognizer,
    AttendedWord,
    AttentionRecognizer,
    OnlineStream,
    OptionError,
    StreamClosed,
)
from wlk_core.streaming import AlignAtt, Word
from wlk_whisper.engine.alignatt import AlignAttOptions, transcribe_aligned
from wlk_whisper.engine.engine import DecodingOptions
from wlk_whisper.engine.features import SAMPLES_PER_ENCODER_FRAME
from wlk_whisper.engine.transcribe import transcribe
from wlk_whisper.options import ALIGNATT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from wlk_core import BackendSpec, Recognizer
    from wlk_whisper.engine.engine import WhisperEngine

__all__ = ["WhisperBackend"]

WARMUP_WORD = " a"  # any text of one token


class WhisperBackend:
    """A Whisper shared by any number of streams; see Backend."""

    def __init__(self, spec: BackendSpec, engine: WhisperEngine) -> None:
        self._spec = spec
        self._engine: WhisperEngine | None = engine

    @property
    def spec(self) -> BackendSpec:
        """The declaration of this backend."""
        return self._spec

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        engine = self._open()
        self._spec.check_language(language)
        self._spec.check_task(task)
        engine.checkpoint.check(
            language=language,
            task=task,
            is_multilingual=engine.is_multilingual,
            hf_tokenizer=engine.hf_tokenizer,
        )
        values = self._spec.stream_options(options)
        self._check_policy(values["policy"], options)
        audio_context = values["audio_context"]
        decoding = DecodingOptions(
            task=task,
            beam_size=values["beam_size"],
            is_fitted=engine.checkpoint.takes_shorter_input
            if audio_context is None
            else audio_context == "fitted",
        )
        recognizer = _alignatt if values["policy"] == "alignatt" else _local_agreement
        return OnlineStream(
            partial(recognizer, engine, decoding=decoding, language=language, values=values)
        )

    def warmup(self) -> None:
        """
        Run the model on a second of silence, in every way that its streams run it.

        Silence has no words, so one word is forced on the decoder.  Otherwise the attention that
        times words, and that AlignAtt decides by, would run for the first time in a stream.

        Raises:
            StreamClosed: the backend is closed.  Errors of the engine are passed on.

        """
        engine = self._open()
        silence = np.zeros(SAMPLE_RATE, dtype=np.float32)
        language = (engine.checkpoint.languages or ("en",))[0]
        decoding = DecodingOptions(is_fitted=engine.checkpoint.takes_shorter_input)
        transcribe(silence, engine=engine, options=decoding, prompt="", language=language)
        encoder_output, _ = engine.encode(silence, is_fitted=decoding.is_fitted)
        tokenizer = engine.tokenizer(language, decoding.task)
        token = tokenizer.encode(WARMUP_WORD)[0]
        engine.align(tokenizer, encoder_output, [token], len(silence))
        if engine.alignment_heads.are_known:
            word = Word(text=WARMUP_WORD, start=0.0, end=0.5)
            transcribe_aligned(
                silence,
                engine=engine,
                options=decoding,
                alignatt=AlignAttOptions(),
                context=(AttendedWord(word=word, frames=(0,), tokens=(token,)),),
                prompt="",
                language=language,
                is_last=False,
            )

    def close(self) -> None:
        """Release the model; open streams keep it until they are closed."""
        self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> WhisperEngine:
        if self._engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return self._engine

    def _check_policy(self, policy: str, options: Mapping[str, Any]) -> None:
        """Raise OptionError where the model or the options do not fit *policy*."""
        if policy == "alignatt":
            engine = self._open()
            engine.alignment_heads.require_known(engine.checkpoint.name)
            return
        foreign = [option.name for option in ALIGNATT_OPTIONS if option.name in options]
        if foreign:
            raise OptionError(
                f"policy={policy} takes no {', '.join(foreign)}: leave it out or choose "
                "policy=alignatt"
            )


def _local_agreement(
    engine: WhisperEngine,
    *,
    decoding: DecodingOptions,
    language: str | None,
    values: Mapping[str, Any],
) -> Recognizer:
    return AgreementRecognizer(
        partial(transcribe, engine=engine, options=decoding),
        language=language,
        prompt=values["init_prompt"] or "",
        tick_seconds=values["tick_seconds"],
        buffer_seconds=values["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )


def _alignatt(
    engine: WhisperEngine,
    *,
    decoding: DecodingOptions,
    language: str | None,
    values: Mapping[str, Any],
) -> Recognizer:
    alignatt = AlignAttOptions(
        static_prompt=values["init_prompt"] or "",
        max_context_tokens=values["max_context_tokens"],
        rewind_frames=values["rewind_frames"],
    )
    policy = AlignAtt(border_frames=values["border_frames"], rewind_frames=values["rewind_frames"])
    return AttentionRecognizer(
        partial(transcribe_aligned, engine=engine, options=decoding, alignatt=alignatt),
        policy=policy,
        frame_samples=SAMPLES_PER_ENCODER_FRAME,
        language=language,
        tick_seconds=values["tick_seconds"],
        buffer_seconds=values["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )
