"""Normalisers by name, which remove the differences that are not errors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from wlk_bench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NORMALISERS", "match_key", "normaliser", "unit_of"]

NORMALISERS = ("english", "basic", "raw")
_UNSPACED = frozenset({"zh", "ja", "th", "yue", "lo", "my", "km"})  # scripts without word spaces


def normaliser(name: str) -> Callable[[str], str]:
    """
    Return the normaliser called *name*.

    "english" and "basic" are those of Whisper's release, as whisper-normalizer carries them.
    "english" spells numbers as digits and joins them, so that "four two" is the one word "42":
    connected digits are compared with "basic".  "raw" only evens out white space.

    Raises:
        DataError: the normaliser is unknown.

    """
    if name not in NORMALISERS:
        raise DataError(
            f"expected a normaliser, one of {', '.join(NORMALISERS)}; got {name!r}: "
            "choose one with --normaliser"
        )
    return _loaded(name)


@lru_cache(maxsize=3)
def _loaded(name: str) -> Callable[[str], str]:
    if name == "raw":
        return _spaced
    if name == "english":
        # Imported here, because it builds a table of 1,700 spellings; it has no type information.
        from whisper_normalizer import english as whisper  # type: ignore[import-untyped] # noqa: PLC0415

        english = whisper.EnglishTextNormalizer()
        return lambda text: _spaced(english(text))
    from whisper_normalizer import basic as plain  # noqa: PLC0415 -- brings regex

    basic = plain.BasicTextNormalizer()
    return lambda text: _spaced(basic(text))


def match_key(word: str) -> str:
    """Return the key by which words are aligned: the "basic" form without spaces."""
    return _match_key(word)


@lru_cache(maxsize=65_536)
def _match_key(word: str) -> str:
    return _loaded("basic")(word).replace(" ", "")


def unit_of(language: str | None) -> str:
    """Return the unit for *language*: "word", or "char" for scripts without word spaces."""
    return "char" if language in _UNSPACED else "word"


def _spaced(text: str) -> str:
    return " ".join(text.split())
