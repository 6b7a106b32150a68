"""Text normalisers by name: they remove the differences that are not errors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from wlk_bench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

NORMALISERS = ("english", "basic", "raw")
_UNSPACED = frozenset({"zh", "ja", "th", "yue", "lo", "my", "km"})  # scripts without word spaces


@lru_cache
def normaliser(name: str) -> Callable[[str], str]:
    """
    Return the normaliser called *name*.

    "english" and "basic" are those released with Whisper, from the package whisper-normalizer.
    "english" writes numbers as digits and joins them, so that "four two" is the one word "42":
    compare connected digits with "basic".  "raw" only normalises white space.

    Raises:
        DataError: the normaliser is unknown.

    """
    if name not in NORMALISERS:
        raise DataError(
            f"expected a normaliser, one of {', '.join(NORMALISERS)}; got {name!r}: "
            "choose one with --normaliser"
        )
    clean: Callable[[str], str] = str
    if name == "english":
        # Imported lazily, because it builds a table of 1,700 spellings; it is untyped.
        from whisper_normalizer import english  # type: ignore[import-untyped] # noqa: PLC0415

        clean = english.EnglishTextNormalizer()
    elif name == "basic":
        from whisper_normalizer import basic  # noqa: PLC0415 -- brings regex

        clean = basic.BasicTextNormalizer()
    return lambda text: " ".join(clean(text).split())


@lru_cache(maxsize=65_536)
def match_key(word: str) -> str:
    """Return the key by which words are aligned: the "basic" form without spaces."""
    return normaliser("basic")(word).replace(" ", "")


def unit_of(language: str | None) -> str:
    """Return the unit for *language*: "word", or "char" for scripts without word spaces."""
    return "char" if language in _UNSPACED else "word"
