"""The configuration of a run: backend, options and schedule, checked before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.environment import detect_versions
from wlk_bench.errors import DataError
from wlk_bench.metrics.normalise import normaliser, unit_of
from wlk_core.options import parse_pairs
from wlk_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wlk_bench.data import Dataset
    from wlk_core.backend import Backend, BackendSpec


@attrs.frozen(kw_only=True)
class RunConfig:
    """
    Everything that a result depends on besides the machine; "setup" in the files of a run.

    `backend_options` and `stream_options` include defaults; the policy is a stream option.
    `load_arguments` and `stream_arguments` are the options that were set explicitly.  Only these
    are passed on, because a policy can reject options of another, even at their defaults.
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
    load_arguments: Mapping[str, Any] = attrs.field(factory=dict)
    stream_arguments: Mapping[str, Any] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the same whether a default was set explicitly or not."""
        fields = attrs.asdict(self)
        del fields["load_arguments"], fields["stream_arguments"]
        return {**fields, "unit": unit_of(self.language)}


def prepare(
    dataset: Dataset,
    backend: str,
    *,
    model: str | None = None,
    language: str | None = None,
    task: str = "transcribe",
    options: Iterable[str] = (),
    chunk_seconds: float = 1.0,
    is_paced: bool = False,
    streams: int = 1,
    normaliser_name: str | None = None,
    registry: Registry | None = None,
) -> tuple[RunConfig, BackendSpec]:
    """
    Return the configuration of a run and the spec of its backend, without loading anything.

    `options` are KEY=VALUE strings for the backend and its streams.  `language` defaults to that
    of the data set, if the backend supports it and can be forced to a language.

    Raises:
        BackendUnavailable, OptionError: see wlk_core.load_backend.
        DataError: the schedule or the normaliser is invalid.

    """
    registry = registry or Registry()
    spec = registry.spec(backend)
    values = spec.split_options(parse_pairs(options))
    if not 0 < chunk_seconds < float("inf"):
        raise DataError(f"expected --chunk-seconds above 0 and finite, got {chunk_seconds}")
    if streams < 1:
        raise DataError(f"expected --streams of at least 1, got {streams}")
    can_force = "language-forcing" in spec.capabilities and dataset.language in spec.languages
    if language is None and can_force:
        language = dataset.language
    spec.check_language(language)
    spec.check_task(task)
    name = normaliser_name or dataset.normaliser
    normaliser(name)
    owner = registry.owner(backend).distribution
    return (
        RunConfig(
            backend=backend,
            model=model or spec.default_model,
            language=language,
            task=task,
            backend_options=spec.backend_options(values.backend),
            stream_options=spec.stream_options(values.stream),
            data=dataset.name,
            mode=dataset.mode,
            chunk_seconds=None if dataset.mode == "single-shot" else chunk_seconds,
            is_paced=is_paced,
            streams=streams,
            normaliser=name,
            versions=detect_versions([owner, *spec.requires]),
            load_arguments=values.backend,
            stream_arguments=values.stream,
        ),
        spec,
    )


def load(config: RunConfig, spec: BackendSpec, registry: Registry | None = None) -> Backend:
    """Load the configured backend; raises what wlk_core.load_backend raises."""
    return (registry or Registry()).load_backend(spec.name, config.model, **config.load_arguments)
