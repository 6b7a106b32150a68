"""What is measured: a backend, its options and the schedule, checked before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.errors import DataError
from wlk_bench.machine import detect_versions
from wlk_bench.metrics.normalise import normaliser, unit_of
from wlk_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_bench.data import Dataset
    from wlk_core.backend import Backend, BackendSpec

__all__ = ["Setup", "load", "prepare"]


@attrs.frozen(kw_only=True)
class Setup:
    """
    Everything that a result depends on besides the machine.

    `backend_options` and `stream_options` are complete, defaults filled in; the policy is one of
    the stream's.  `given` names those that were asked for.
    """

    backend: str
    model: str | None
    language: str | None
    task: str
    backend_options: Mapping[str, Any]
    stream_options: Mapping[str, Any]
    data: str
    mode: str
    chunk_seconds: float | None
    is_paced: bool
    streams: int
    normaliser: str
    versions: Mapping[str, str]
    given: frozenset[str] = frozenset()

    @property
    def unit(self) -> str:
        """What the texts are counted in: "word" or "char"."""
        return unit_of(self.language)

    @property
    def policy(self) -> str | None:
        """How text is decided to be final, where the backend has a choice."""
        return self.stream_options.get("policy")

    @property
    def load_arguments(self) -> dict[str, Any]:
        """What the backend is loaded with; a default is not an argument, it may not fit others."""
        return {name: self.backend_options[name] for name in self.given & {*self.backend_options}}

    @property
    def stream_arguments(self) -> dict[str, Any]:
        """What a stream is opened with, as `load_arguments`."""
        return {name: self.stream_options[name] for name in self.given & {*self.stream_options}}

    def to_json(self) -> dict[str, Any]:
        """Return plain data: a default counts as much as the same value that was asked for."""
        fields = attrs.asdict(self)
        del fields["given"]
        return {**fields, "unit": self.unit}


def prepare(
    dataset: Dataset,
    backend: str,
    *,
    model: str | None = None,
    language: str | None = None,
    task: str = "transcribe",
    options: Mapping[str, Any] | None = None,
    chunk_seconds: float = 1.0,
    is_paced: bool = False,
    streams: int = 1,
    normaliser_name: str | None = None,
    registry: Registry | None = None,
) -> tuple[Setup, BackendSpec]:
    """
    Return the setup of a run and the declaration of its backend; nothing is loaded.

    `options` are the backend's and the stream's together; the declaration says which is which.
    `language` None is the data set's, where the backend can be told.

    Raises:
        BackendUnavailable, OptionError: as wlk_core has it.
        DataError: the schedule or the normaliser is out of range.

    """
    registry = registry or Registry()
    spec = registry.spec(backend)
    given = dict(options or {})
    of_backend = {option.name for option in spec.options if option.scope == "backend"}
    backend_options = spec.backend_options({k: v for k, v in given.items() if k in of_backend})
    stream_options = spec.stream_options({k: v for k, v in given.items() if k not in of_backend})
    if not 0 < chunk_seconds < float("inf"):
        raise DataError(f"expected --chunk-seconds above 0, got {chunk_seconds}")
    if streams < 1:
        raise DataError(f"expected --streams of at least 1, got {streams}")
    if language is None and _can_be_told(spec, dataset.language):
        language = dataset.language
    spec.check_language(language)
    spec.check_task(task)
    name = normaliser_name or dataset.normaliser
    normaliser(name)
    owner = registry.owner(backend).distribution
    return (
        Setup(
            backend=backend,
            model=model or spec.default_model,
            language=language,
            task=task,
            backend_options=backend_options,
            stream_options=stream_options,
            data=dataset.name,
            mode=dataset.mode,
            chunk_seconds=None if dataset.mode == "single-shot" else chunk_seconds,
            is_paced=is_paced,
            streams=streams,
            normaliser=name,
            versions=detect_versions([owner, *spec.requires]),
            given=frozenset(given),
        ),
        spec,
    )


def load(setup: Setup, spec: BackendSpec, registry: Registry | None = None) -> Backend:
    """Load the backend of a setup; raises as wlk_core.load_backend."""
    return (registry or Registry()).load_backend(spec.name, setup.model, **setup.load_arguments)


def _can_be_told(spec: BackendSpec, language: str | None) -> bool:
    return "language-forcing" in spec.capabilities and language in spec.languages
