"""The translator that a command's flags choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_core.errors import OptionError
from wlk_core.languages import NAMES, find_language
from wlk_core.options import parse_pairs

if TYPE_CHECKING:
    from wlk_core.annotators import Translator
    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry


@attrs.frozen
class TranslatorChoice:
    """A chosen translator, and the language that it translates to."""

    registry: Registry
    name: str  #: "NAME" or "NAME=MODEL", as users write it
    language: str
    options: dict[str, str]

    @classmethod
    def of(cls, registry: Registry, flags: dict[str, Any]) -> Self | None:
        """Pop the translation flags from *flags*; return None if no translation is wanted."""
        target = flags.pop("translate_to")
        name = flags.pop("translator")
        pairs = flags.pop("translator_pairs")
        if target is None:
            if name or pairs:
                raise OptionError("a translator needs a language: --translate-to LANG")
            return None
        from wlk_core.registry import known_plugins  # noqa: PLC0415 -- not for --help

        name = name or next(iter(known_plugins("translator")))
        return cls(registry, name, find_language(target, tuple(NAMES)), parse_pairs(pairs))

    def open(self, spec: BackendSpec, language: str | None) -> Translator:
        """Return a translator for a stream of *spec* in *language*, None if that is detected."""
        source = spoken_language(spec, language)
        options = {"target_language": self.language, "source_language": source, **self.options}
        translator: Translator = self.registry.load_annotator("translator", self.name, **options)
        return translator


def spoken_language(spec: BackendSpec, language: str | None) -> str | None:
    """Return the language of a stream of *spec* that was opened for *language*, None if unknown."""
    return spec.languages[0] if language is None and len(spec.languages) == 1 else language
