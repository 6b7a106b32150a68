"""Streams of either policy on one loaded Qwen3-ASR, whatever framework runs it."""

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
from wlk_qwen3_simul.engine.decoder import CachedDecoder
from wlk_qwen3_simul.engine.detokenize import WordToken
from wlk_qwen3_simul.engine.engine import DecodingOptions
from wlk_qwen3_simul.engine.frames import FRAME_SAMPLES, HOP_SAMPLES
from wlk_qwen3_simul.engine.transcribe import transcribe
from wlk_qwen3_simul.options import ALIGNATT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from wlk_core import BackendSpec, Recognizer
    from wlk_qwen3_simul.engine.engine import Engine

__all__ = ["SimulBackend"]

WARMUP_TEXT = " a"  # any text


class SimulBackend:
    """A Qwen3-ASR shared by any number of streams; see Backend."""

    def __init__(self, spec: BackendSpec, engine: Engine) -> None:
        self._spec = spec
        self._engine: Engine | None = engine

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return self._spec

    @property
    def engine(self) -> Engine:
        """
        The loaded model.

        Raises:
            StreamClosed: the backend is closed.

        """
        if self._engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return self._engine

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        engine = self.engine
        self._spec.check_language(language)
        self._spec.check_task(task)
        engine.checkpoint.check_language(language)
        values = self._spec.stream_options(options)
        hotwords = values["init_prompt"] or ""
        if special := engine.vocabulary.special_token_in(hotwords):
            raise OptionError(
                f"{self._spec.name}: init_prompt contains {special!r}, which the model reads as a "
                "turn of its conversation; leave it out"
            )
        if values["policy"] == "alignatt":
            make = _alignatt
        else:
            make = _local_agreement
            if foreign := [option.name for option in ALIGNATT_OPTIONS if option.name in options]:
                raise OptionError(
                    f"policy={values['policy']} takes no {', '.join(foreign)}: leave it out or "
                    "choose policy=alignatt"
                )
        return OnlineStream(
            partial(make, engine, hotwords=hotwords, language=language, values=values)
        )

    def warmup(self) -> None:
        """
        Run the model on silence as its streams run it: a first call, and one over the KV cache.

        Silence has no words, so a committed word is forced.  It goes through no stream.

        Raises:
            StreamClosed: the backend is closed.  What else the engine raises is passed on.

        """
        engine = self.engine
        decoder = CachedDecoder(engine, DecodingOptions(max_new_tokens=2))
        language = (engine.checkpoint.languages or ("en",))[0]
        silence = np.zeros(2 * SAMPLE_RATE, dtype=np.float32)
        ids = engine.vocabulary.encode(WARMUP_TEXT)
        committed = AttendedWord(
            word=Word(0.0, 0.5, WARMUP_TEXT),
            frames=(0,) * len(ids),
            tokens=tuple(WordToken(token, -1, index) for index, token in enumerate(ids)),
        )
        for seconds in (1, 2):
            decoder(
                silence[: seconds * SAMPLE_RATE],
                first_sample=0,
                context=(committed,),
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


def _local_agreement(
    engine: Engine, *, hotwords: str, language: str | None, values: Mapping[str, Any]
) -> Recognizer:
    options = DecodingOptions(hotwords=hotwords, max_new_tokens=values["max_new_tokens"])
    return AgreementRecognizer(
        partial(transcribe, engine=engine, options=options),
        language=language,
        tick_seconds=values["tick_seconds"],
        buffer_seconds=values["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )


def _alignatt(
    engine: Engine, *, hotwords: str, language: str | None, values: Mapping[str, Any]
) -> Recognizer:
    rewind = _frames(values["rewind_seconds"])
    options = DecodingOptions(
        hotwords=hotwords, max_new_tokens=values["max_new_tokens"], rewind_frames=rewind
    )
    decoder = CachedDecoder(engine, options)
    return AttentionRecognizer(
        decoder,
        policy=AlignAtt(border_frames=_frames(values["border_seconds"]), rewind_frames=rewind),
        frame_samples=FRAME_SAMPLES,
        language=language,
        tick_seconds=values["tick_seconds"],
        buffer_seconds=values["buffer_seconds"] or engine.checkpoint.buffer_seconds,
        cut_samples=engine.network.window_frames * HOP_SAMPLES,
        kept=decoder,
    )


def _frames(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE / FRAME_SAMPLES)
