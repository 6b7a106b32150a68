"""A backend over any Network: open streams of either policy on one loaded model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wlk_core import (
    AgreementRecognizer,
    AttendedWord,
    AttentionRecognizer,
    OnlineStream,
    OptionError,
    StreamClosed,
)
from wlk_core.streaming import AlignAtt, Word
from wlk_whisper.decoder.attend import FRAME_SAMPLES, AttendSettings, attend
from wlk_whisper.decoder.engine import StreamSettings
from wlk_whisper.decoder.transcribe import transcribe
from wlk_whisper.specs.common import ALIGNATT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from wlk_core import BackendSpec, Recognizer
    from wlk_whisper.decoder.engine import Engine
    from wlk_whisper.heads import AlignmentHeads

__all__ = ["NetworkBackend"]

RATE = 16_000
WORD = " a"  # any text of one token


class NetworkBackend:
    """A Whisper shared by any number of streams; see Backend.  Backends differ in its loading."""

    def __init__(self, spec: BackendSpec, engine: Engine, *, heads: AlignmentHeads) -> None:
        self._spec = spec
        self._heads = heads
        self._engine: Engine | None = engine

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
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
            vocabulary=engine.vocabulary,
        )
        chosen = self._spec.stream_options(options)
        self._check_policy(chosen["policy"], options)
        context = chosen["audio_context"]
        stream = StreamSettings(
            task=task,
            beam_size=chosen["beam_size"],
            is_fitted=engine.checkpoint.takes_shorter_input
            if context is None
            else context == "fitted",
        )
        recognizer = _attention if chosen["policy"] == "alignatt" else _agreement
        return OnlineStream(
            partial(recognizer, engine, stream=stream, language=language, chosen=chosen)
        )

    def warmup(self) -> None:
        """
        Run the model on a second of silence, in every way that its streams run it.

        Silence has no words, so the decoder is made to say one: else the attention that times
        words, and that AlignAtt decides by, would run for the first time on somebody's audio.

        Raises:
            StreamClosed: the backend is closed.  What else the engine raises is passed on.

        """
        engine = self._open()
        silence = np.zeros(RATE, dtype=np.float32)
        language = (engine.checkpoint.languages or ("en",))[0]
        stream = StreamSettings(is_fitted=engine.checkpoint.takes_shorter_input)
        transcribe(silence, engine=engine, settings=stream, prompt="", language=language)
        encoded, _ = engine.encode(silence, is_fitted=stream.is_fitted)
        tokenizer = engine.tokenizer(language, stream.task)
        token = tokenizer.encode(WORD)[0]
        engine.align(tokenizer, encoded, [token], len(silence))
        if self._heads.are_known:
            said = AttendedWord(
                word=Word(text=WORD, start=0.0, end=0.5), frames=(0,), tokens=(token,)
            )
            attend(
                silence,
                engine=engine,
                stream=stream,
                settings=AttendSettings(),
                context=(said,),
                prompt="",
                language=language,
                is_last=False,
            )

    def close(self) -> None:
        """Let go of the model; streams that are open keep it until they are closed."""
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

    def _open(self) -> Engine:
        if self._engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return self._engine

    def _check_policy(self, policy: str, given: Mapping[str, Any]) -> None:
        """Raise OptionError where the model cannot do *policy*, or it takes no such option."""
        if policy == "alignatt":
            self._heads.require_known(self._open().checkpoint.name)
            return
        foreign = [option.name for option in ALIGNATT if option.name in given]
        if foreign:
            raise OptionError(
                f"policy={policy} takes no {', '.join(foreign)}: leave it out or choose "
                "policy=alignatt"
            )


def _agreement(
    engine: Engine, *, stream: StreamSettings, language: str | None, chosen: Mapping[str, Any]
) -> Recognizer:
    return AgreementRecognizer(
        partial(transcribe, engine=engine, settings=stream),
        language=language,
        prompt=chosen["init_prompt"] or "",
        tick_seconds=chosen["tick_seconds"],
        buffer_seconds=chosen["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )


def _attention(
    engine: Engine, *, stream: StreamSettings, language: str | None, chosen: Mapping[str, Any]
) -> Recognizer:
    settings = AttendSettings(
        static_prompt=chosen["init_prompt"] or "",
        max_context_tokens=chosen["max_context_tokens"],
        rewind_frames=chosen["rewind_frames"],
    )
    policy = AlignAtt(border_frames=chosen["border_frames"], rewind_frames=chosen["rewind_frames"])
    return AttentionRecognizer(
        partial(_attend, engine=engine, stream=stream, settings=settings),
        policy=policy,
        frame_samples=FRAME_SAMPLES,
        language=language,
        tick_seconds=chosen["tick_seconds"],
        buffer_seconds=chosen["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )


def _attend(audio: Any, *, first_sample: int, **given: Any) -> Any:
    """Call the engine, to which it is the same wherever in the run the audio begins."""
    del first_sample
    return attend(audio, **given)
