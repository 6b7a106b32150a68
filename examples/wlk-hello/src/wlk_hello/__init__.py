"""A backend that says hello: the whole of a plugin in one module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from wlk_core import BackendSpec, ModelNotFoundError, StreamClosed, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core import Hypothesis, OnlineStream

__all__ = ["SPEC", "HelloBackend", "hear", "load", "wlk_backends"]

FRAME = 800  # samples, 0.05 s
LOUD = 0.02  # root mean square of a frame above which something is said


def hear(audio: NDArray[np.float32], *, prompt: str, language: str | None) -> Hypothesis:
    """Return a hello for every burst of sound in float32[n]: the engine call."""
    import numpy as np  # noqa: PLC0415 -- a plugin module stays light

    from wlk_core import Hypothesis  # noqa: PLC0415
    from wlk_core.streaming import Word  # noqa: PLC0415

    del prompt, language  # it knows one word, in every language
    frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
    is_loud = np.sqrt(np.mean(np.square(frames), axis=1)) > LOUD
    edges = np.flatnonzero(np.diff(is_loud, prepend=False, append=False)) * FRAME / 16_000
    return Hypothesis(words=tuple(Word(a, b, " hello") for a, b in edges.reshape(-1, 2).tolist()))


class HelloBackend:
    """Any number of streams that say hello."""

    is_closed = False

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream."""
        from wlk_core import AgreementRecognizer, OnlineStream  # noqa: PLC0415

        if self.is_closed:
            raise StreamClosed("the backend is closed; load it again")
        SPEC.check_language(language)
        SPEC.check_task(task)
        SPEC.stream_options(options)
        return OnlineStream(lambda: AgreementRecognizer(hear))

    def warmup(self) -> None:
        """Do nothing: there is no model to warm."""

    def close(self) -> None:
        """Refuse new streams."""
        self.is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def load(model: str | None) -> HelloBackend:
    """Return the backend; see BackendSpec.load."""
    if model not in (None, "ears"):
        raise ModelNotFoundError(f"hello knows no model {model!r}; use: --model ears")
    return HelloBackend()


SPEC = BackendSpec(
    name="hello",
    api=1,
    summary="says hello for every burst of sound",
    load=load,
    capabilities={"hypothesis", "word-times", "bounded-state"},
    policies=("local-agreement",),
    models={"ears": "bundled"},
    default_model="ears",
    max_delay=3.0,
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return [SPEC]
