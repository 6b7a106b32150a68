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
from wlk_qwen3_simul.audio.frames import FRAME_SAMPLES, HOP, RATE
from wlk_qwen3_simul.simul.engine import StreamSettings
from wlk_qwen3_simul.simul.listener import Listener
from wlk_qwen3_simul.simul.telling import Token
from wlk_qwen3_simul.simul.transcribe import transcribe
from wlk_qwen3_simul.specs import ALIGNATT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from wlk_core import BackendSpec, Recognizer
    from wlk_qwen3_simul.simul.engine import Engine

__all__ = ["SimulBackend"]

WORD = " a"  # any text


class SimulBackend:
    """A Qwen3-ASR shared by any number of streams; see Backend.  Two differ in its loading."""

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
        chosen = self._spec.stream_options(options)
        hotwords = chosen["init_prompt"] or ""
        if mark := engine.vocabulary.mark_in(hotwords):
            raise OptionError(
                f"{self._spec.name}: init_prompt holds {mark!r}, which the model takes for the "
                "frame of its conversation; leave it out"
            )
        if chosen["policy"] == "alignatt":
            make = _attention
        else:
            make = _agreement
            if foreign := [option.name for option in ALIGNATT if option.name in options]:
                raise OptionError(
                    f"policy={chosen['policy']} takes no {', '.join(foreign)}: leave it out or "
                    "choose policy=alignatt"
                )
        return OnlineStream(
            partial(make, engine, hotwords=hotwords, language=language, chosen=chosen)
        )

    def warmup(self) -> None:
        """
        Run the model on silence as its streams run it: a first call, and one behind kept state.

        Silence has no words, so a word is forced behind it.  It goes through no stream.

        Raises:
            StreamClosed: the backend is closed.  What else the engine raises is passed on.

        """
        engine = self.engine
        listener = Listener(engine, StreamSettings(max_new_tokens=2))
        language = (engine.checkpoint.languages or ("en",))[0]
        silence = np.zeros(2 * RATE, dtype=np.float32)
        ids = engine.vocabulary.encode(WORD)
        said = AttendedWord(
            word=Word(0.0, 0.5, WORD),
            frames=(0,) * len(ids),
            tokens=tuple(Token(one, -1, place) for place, one in enumerate(ids)),
        )
        for seconds in (1, 2):
            listener(
                silence[: seconds * RATE],
                first_sample=0,
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


def _agreement(
    engine: Engine, *, hotwords: str, language: str | None, chosen: Mapping[str, Any]
) -> Recognizer:
    settings = StreamSettings(hotwords=hotwords, max_new_tokens=chosen["max_new_tokens"])
    return AgreementRecognizer(
        partial(transcribe, engine=engine, settings=settings),
        language=language,
        tick_seconds=chosen["tick_seconds"],
        buffer_seconds=chosen["buffer_seconds"] or engine.checkpoint.buffer_seconds,
    )


def _attention(
    engine: Engine, *, hotwords: str, language: str | None, chosen: Mapping[str, Any]
) -> Recognizer:
    rewind = _frames(chosen["rewind_seconds"])
    settings = StreamSettings(
        hotwords=hotwords, max_new_tokens=chosen["max_new_tokens"], rewind_frames=rewind
    )
    listener = Listener(engine, settings)
    return AttentionRecognizer(
        listener,
        policy=AlignAtt(border_frames=_frames(chosen["border_seconds"]), rewind_frames=rewind),
        frame_samples=FRAME_SAMPLES,
        language=language,
        tick_seconds=chosen["tick_seconds"],
        buffer_seconds=chosen["buffer_seconds"] or engine.checkpoint.buffer_seconds,
        cut_samples=engine.network.window_frames * HOP,
        kept=listener,
    )


def _frames(seconds: float) -> int:
    return round(seconds * RATE / FRAME_SAMPLES)
