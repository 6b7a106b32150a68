"""The text filters that a command's flags choose."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_core.errors import OptionError
from wlk_core.options import parse_pairs
from wlk_core.untrusted import shown
from wlk_live.config import config_path, errors_from, read_config
from wlk_live.translator_choice import spoken_language

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import ExitStack

    from wlk_core.annotators import AnnotatorSpec, TextFilter
    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry

_NO_FILTER = "none"  # on the command line


@attrs.frozen
class FilterChoice:
    """Chosen text filters in their order: "NAME" or "NAME=MODEL", each with its options."""

    registry: Registry
    options: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    origin: str | None = None  #: where the user chose them, for messages; None for flags

    @classmethod
    def of(cls, registry: Registry, flags: dict[str, Any], *, configured: bool = True) -> Self:
        """
        Pop the flags of text filters from *flags*.

        Without such a flag they are those of config.toml if *configured*; `none` stands for none.
        Options are those of config.toml, unless a flag sets them.
        """
        config = read_config()
        names = flags.pop("filters")
        pairs = parse_pairs(flags.pop("filter_pairs"))
        origin = f"{config_path()}, key filters" if configured and not (names or pairs) else None
        names = (names or config.filters) if configured else names
        names = () if tuple(names) == (_NO_FILTER,) else names
        chosen = {name: dict(config.options.get(name.partition("=")[0], {})) for name in names}
        filters = {name.partition("=")[0]: options for name, options in chosen.items()}
        for key, value in pairs.items():
            name, dot, option = key.partition(".")
            if not dot or not option:
                raise OptionError(
                    f"--filter-option: expected NAME.KEY=VALUE, got {shown(f'{key}={value}')}"
                )
            if name not in filters:
                raise OptionError(f"--filter-option {key} needs the filter: --filter {name}")
            filters[name][option] = value
        return cls(registry, chosen, origin)

    @property
    def specs(self) -> tuple[AnnotatorSpec, ...]:
        """The declarations of the filters, in their order."""
        declared = {spec.name: spec for spec in self.registry.offers("text-filter")}
        names = (name.partition("=")[0] for name in self.options)
        return tuple(declared[name] for name in names if name in declared)

    def changed(self, filters: Mapping[str, Mapping[str, Any]] | None) -> Self:
        """Return those of *filters*, with the options there too; all of them for None."""
        if filters is None:
            return self
        chosen = {name.partition("=")[0]: (name, own) for name, own in self.options.items()}
        options = {chosen[name][0]: {**chosen[name][1], **more} for name, more in filters.items()}
        return attrs.evolve(self, options=options)

    def open(self, parts: ExitStack, spec: BackendSpec, language: str | None) -> list[TextFilter]:
        """Load the filters for a stream of *spec* in *language*; *parts* closes them."""
        return list(self._opened(parts, spoken_language(spec, language)))

    def _opened(self, parts: ExitStack, language: str | None) -> Iterator[TextFilter]:
        for name, options in self.options.items():
            with errors_from(self.origin):
                opened: TextFilter = self.registry.load_annotator(
                    "text-filter", name, **{"language": language} | dict(options)
                )
            parts.enter_context(closing(opened))
            yield opened
