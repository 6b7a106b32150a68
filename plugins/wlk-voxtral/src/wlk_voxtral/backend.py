"""What the backends of a model with delayed streams share: all but its framework."""

from __future__ import annotations

from functools import partial
import threading
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import attrs

from wlk_core.errors import ModelNotFoundError, OptionError, StreamClosed
from wlk_core.models import read_settings
from wlk_core.online import OnlineStream
from wlk_voxtral.recognizer import VoxtralRecognizer, silence_features
from wlk_voxtral.tokenizer import TekkenTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.backend import BackendSpec
    from wlk_core.online import WorkCounters
    from wlk_core.streaming import LogMel, TokenPrediction
    from wlk_voxtral.recognizer import StepState

__all__ = ["DelayedBackend", "StepEngine", "VoxtralFormat"]

MANIFEST = "wlk.json"


@attrs.frozen(kw_only=True, eq=False)
class VoxtralFormat:
    """
    What streams need to know of a checkpoint; see `read`.

    Attributes:
        name: what users call the model, for errors.
        tekken: its tokenizer, which says how its streams are laid out.
        log_mel: the features it hears.
        dtype: the arithmetic it wants, by its name; None where it does not say.
        delays_ms: the delays it was trained for; None where it is held to the format alone.

    """

    name: str
    tekken: TekkenTokenizer
    log_mel: LogMel
    dtype: str | None = None
    delays_ms: tuple[int, ...] | None = None

    @classmethod
    def read(cls, directory: Path, *, name: str, log_mel: LogMel) -> VoxtralFormat:
        """
        Read the tokenizer in *directory*, tekken.json.

        A ``wlk.json`` beside it may name `dtype` and `delays_ms`.

        Raises:
            ModelNotFoundError: there is none, it is none of a model with delayed streams, or a
                file is damaged.

        """
        file = directory / "tekken.json"
        if not file.is_file():
            raise ModelNotFoundError(
                f"{directory} holds no tekken.json, the tokenizer of Voxtral Realtime; "
                "pull the model again, or copy the file from where it was published"
            )
        try:
            tekken = TekkenTokenizer.from_json(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelNotFoundError(
                f"{file} is no tokenizer of Voxtral Realtime: {error}; pull the model again"
            ) from error
        told = read_settings(directory / MANIFEST)
        return cls(
            name=name,
            tekken=tekken,
            log_mel=log_mel,
            dtype=told.get("dtype"),
            delays_ms=tuple(told["delays_ms"]) if "delays_ms" in told else None,
        )

    def delay_steps(self, delay_ms: int | None) -> int:
        """
        Return the delay of a stream in steps of 80 ms, the checkpoint's own for None.

        Raises:
            OptionError: the format, or this checkpoint, has no such delay.

        """
        if delay_ms is None:
            return self.tekken.delay_steps
        if self.delays_ms is not None and delay_ms not in self.delays_ms:
            known = ", ".join(map(str, self.delays_ms))
            raise OptionError(
                f"the model {self.name} was trained for a delay_ms of {known}, got {delay_ms}"
            )
        try:
            return self.tekken.steps_of(delay_ms)
        except ValueError as error:
            raise OptionError(f"delay_ms: {error}") from error


S = TypeVar("S", bound="StepState")


class StepEngine(Protocol[S]):
    """A loaded model on some framework, shared by any number of streams."""

    def decode(
        self, mel: NDArray[np.float32], state: S | None, *, delay_steps: int, draft_steps: int
    ) -> tuple[Sequence[TokenPrediction], S, WorkCounters]:
        """
        Hear the next cells of a run; StepDecoder says what is given, returned and raised.

        Args:
            mel: float32[8 n, mels], the frames of n cells.
            state: what the last call returned; None at the start of a run.
            delay_steps: by how many steps of 80 ms the text lags behind, the same in all of a run.
            draft_steps: steps decoded in one pass at most; the `width` of speculative_decode.

        """
        ...


E = TypeVar("E", bound=StepEngine[Any])


class DelayedBackend(Generic[E]):
    """
    A model with delayed streams, loaded: all of a Backend but what loads it.

    Its spec declares the stream options `delay_ms` (None: what the checkpoint asks for) and
    `draft_steps`.  `calls`, `fail_at` and `before_call` are the seams of wlk-conformance; nothing
    else sets them.
    """

    def __init__(self, spec: BackendSpec, engine: E, told: VoxtralFormat) -> None:
        self._spec = spec
        self._engine: E | None = engine
        self._format = told
        self.calls = 0
        self.fail_at: frozenset[int] = frozenset()
        self.before_call: Callable[[], None] | None = None
        self._counting = threading.Lock()

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return self._spec

    @property
    def engine(self) -> E:
        """
        The model and what runs it.

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
        engine, told = self.engine, self._format
        self._spec.check_language(language)
        self._spec.check_task(task)
        chosen = self._spec.stream_options(options)
        delay = told.delay_steps(chosen["delay_ms"])
        decode = partial(self._decode, engine, delay_steps=delay, draft_steps=chosen["draft_steps"])
        return OnlineStream(
            lambda: VoxtralRecognizer(
                decode, tekken=told.tekken, delay_steps=delay, log_mel=told.log_mel
            )
        )

    def warmup(self) -> None:
        """Run the model once on a step of silence."""
        told = self._format
        mel = silence_features(told.log_mel, 1)
        self._decode(self.engine, mel, None, delay_steps=told.tekken.delay_steps, draft_steps=1)

    def close(self) -> None:
        """Let go of the model; streams that are open keep it until they are closed."""
        self._engine = None

    def _decode(
        self,
        engine: E,
        mel: NDArray[np.float32],
        state: Any,
        *,
        delay_steps: int,
        draft_steps: int,
    ) -> tuple[Sequence[TokenPrediction], Any, WorkCounters]:
        """Call the engine, held before or failing where a test asked for that."""
        if self.before_call is not None:
            self.before_call()
        with self._counting:
            self.calls += 1
            call = self.calls
        if call in self.fail_at:
            raise RuntimeError(f"engine call {call} was asked to fail")
        return engine.decode(mel, state, delay_steps=delay_steps, draft_steps=draft_steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
