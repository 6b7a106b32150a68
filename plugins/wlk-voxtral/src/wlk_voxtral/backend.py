"""A loaded Voxtral model as a backend: from the options of a stream to its recognizer."""

from __future__ import annotations

from functools import partial
import threading
from typing import TYPE_CHECKING, Any, Self

from wlk_core import OnlineStream, StreamClosed
from wlk_voxtral.recognizer import VoxtralRecognizer, silence_features

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from wlk_core import BackendSpec
    from wlk_voxtral.engine import VoxtralEngine

__all__ = ["VoxtralBackend"]


class VoxtralBackend:
    """A loaded Voxtral model."""

    def __init__(self, spec: BackendSpec, engine: VoxtralEngine[Any, Any, Any]) -> None:
        self._spec = spec
        self._engine: VoxtralEngine[Any, Any, Any] | None = engine
        self.calls = 0
        self.fail_at: frozenset[int] = frozenset()
        self.before_call: Callable[[], None] | None = None
        self._counting = threading.Lock()

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return self._spec

    @property
    def engine(self) -> VoxtralEngine[Any, Any, Any]:
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
        engine = self.engine
        self._spec.check_language(language)
        self._spec.check_task(task)
        values = self._spec.stream_options(options)
        settings = engine.settings
        delay_steps = settings.delay_steps(values["delay_ms"])
        decode = partial(
            self._decode, engine, delay_steps=delay_steps, draft_steps=values["draft_steps"]
        )
        return OnlineStream(
            lambda: VoxtralRecognizer(
                decode,
                tokenizer=settings.tokenizer,
                delay_steps=delay_steps,
                log_mel=settings.log_mel,
            )
        )

    def warmup(self) -> None:
        """Run the model once on a step of silence."""
        settings = self.engine.settings
        mel = silence_features(settings.log_mel, 1)
        delay_steps = settings.tokenizer.delay_steps
        self._decode(self.engine, mel, None, delay_steps=delay_steps, draft_steps=1)

    def close(self) -> None:
        """Release the model; streams that are open keep it until they are closed."""
        self._engine = None

    def _decode(self, engine: Any, mel: Any, state: Any, **options: int) -> Any:
        if self.before_call is not None:
            self.before_call()
        with self._counting:
            self.calls += 1
            call = self.calls
        if call in self.fail_at:
            raise RuntimeError(f"engine call {call} was asked to fail")
        return engine.decode(mel, state, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
