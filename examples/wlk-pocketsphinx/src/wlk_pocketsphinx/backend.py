"""The PocketSphinx backend: find a grammar and open streams on it."""

from __future__ import annotations

from pathlib import Path
import threading
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from wlk_core import AgreementRecognizer, ModelNotFoundError, OnlineStream, StreamClosed
from wlk_core.models import locate
from wlk_pocketsphinx.engine import Engine
from wlk_pocketsphinx.plugin import POCKETSPHINX

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wlk_core import BackendSpec, Hypothesis

__all__ = ["PocketSphinxBackend"]

FILES = ("grammar.jsgf", "words.dict")


@attrs.define
class PocketSphinxBackend:
    """
    A grammar that any number of streams follow, each with a decoder of its own.

    `calls`, `fail_at` and `before_call` are the seams of wlk-conformance; nothing else sets them.
    """

    model: Path
    calls: int = attrs.field(default=0, init=False)
    fail_at: frozenset[int] = attrs.field(default=frozenset(), init=False)
    before_call: Callable[[], None] | None = attrs.field(default=None, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    @classmethod
    def load(cls, model: str | None) -> PocketSphinxBackend:
        """
        Find the grammar *model* and try it.

        Raises:
            ModelNotFoundError: it is not there, or PocketSphinx cannot read it.

        """
        name = model or str(POCKETSPHINX.default_model)
        bundled = {"digits": Path(__file__).parent / "digits"}
        directory = locate(name, spec=POCKETSPHINX, bundled=bundled, needs=FILES)
        try:
            if not (directory / FILES[0]).read_bytes().startswith(b"#JSGF"):
                raise ValueError("the grammar does not begin with #JSGF")  # noqa: TRY301
            Engine.load(directory)
        except (RuntimeError, ValueError) as error:
            raise ModelNotFoundError(
                f"{directory} could not be loaded: {error}; expected a JSGF grammar in "
                "grammar.jsgf and its words in words.dict, or use: --model digits"
            ) from error
        return cls(directory)

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return POCKETSPHINX

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        if self._is_closed:
            raise StreamClosed("the backend is closed; load it again")
        POCKETSPHINX.check_language(language)
        POCKETSPHINX.check_task(task)
        chosen = POCKETSPHINX.stream_options(options)

        def recognizer() -> AgreementRecognizer:
            engine = Engine.load(self.model)

            def transcribe(
                audio: NDArray[np.float32], *, prompt: str, language: str | None
            ) -> Hypothesis:
                self._count()
                return engine.transcribe(
                    audio,
                    prompt=prompt,
                    language=language,
                    min_probability=chosen["min_probability"],
                )

            return AgreementRecognizer(
                transcribe,
                language=language,
                tick_seconds=chosen["tick_seconds"],
                buffer_seconds=chosen["buffer_seconds"],
            )

        return OnlineStream(recognizer)

    def warmup(self) -> None:
        """Decode a second of silence, so that the model lies in the system's cache."""
        self._count()
        silence = np.zeros(16_000, dtype=np.float32)
        Engine.load(self.model).transcribe(silence, prompt="", language=None)

    def close(self) -> None:
        """Refuse new streams; those that are open have a decoder of their own."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _count(self) -> None:
        """Count an engine call, and hold it or let it fail where a test asked for that."""
        if self.before_call is not None:
            self.before_call()
        with self._lock:
            self.calls += 1
            call = self.calls
        if call in self.fail_at:
            raise RuntimeError(f"engine call {call} was asked to fail")
