"""Find phrases of a list: a user's names and replacements, and profanity."""

from __future__ import annotations

from bisect import bisect_left
import re
from typing import TYPE_CHECKING

import attrs

from wlk_core.plugins import OptionError
from wlk_format.engine.words import Span, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_IGNORED = re.compile(r"[\W_]+")
_ELISION = re.compile(r"((?:[cdjlmnst]|qu)['’])(.+)", re.IGNORECASE)  # noqa: RUF001 -- models
_POSSESSIVE = re.compile(r"(.+)('s|’s)", re.IGNORECASE)  # noqa: RUF001 -- as above


class Phrases:
    """
    Replace phrases, the longest first, wherever whole words spell them.

    Case, spaces and hyphens make no difference: "open street map" and "Open-Street-Map" both spell
    "OpenStreetMap".  Punctuation around a phrase stays, and so do l' and the like before it and 's
    after it.
    """

    def __init__(self, entries: Mapping[str, str], write: Callable[[str, str], str]) -> None:
        """*write* returns the text for the matched words and the value of their entry."""
        self._values = {_key(phrase): value for phrase, value in entries.items()}
        self._keys = sorted(self._values)
        self._write = write

    def joins(self, words: Sequence[Word], following: Word | None) -> bool:
        """As `Stage.joins`."""
        nexts = [""] if following is None else [_key(core) for core, _ in _ends(following)]
        rest = ""
        for at, word in reversed(list(enumerate(words))):
            if word.tail:
                return False
            # Check every suffix, because earlier words may not belong to a phrase.
            texts = [_key(core) + rest for _, core in _beginnings(word)]
            if any(self._is_prefix(text + each) for text in texts for each in nexts):
                return True
            if at and word.head.strip():
                return False
            rest = texts[0]
        return False

    def _is_prefix(self, text: str) -> bool:
        at = bisect_left(self._keys, text)
        return at < len(self._keys) and self._keys[at].startswith(text)

    def spans(self, words: Sequence[Word]) -> list[Span]:
        """As `Stage.spans`."""
        found, at = [], 0
        while at < len(words):
            span = self._match(words, at)
            if span:
                found.append(span)
            at = span.stop if span else at + 1
        return found

    def _match(self, words: Sequence[Word], start: int) -> Span | None:
        found = None
        for article, first in _beginnings(words[start]):
            key = ""
            for stop in range(start + 1, len(words) + 1):
                word = (
                    words[stop - 1] if stop > start + 1 else attrs.evolve(words[start], core=first)
                )
                for core, ending in _ends(word):
                    value = self._values.get(key + _key(core))
                    if value is not None:
                        between = [each.core for each in words[start + 1 : stop - 1]]
                        spoken = " ".join([*([first, *between] if stop > start + 1 else []), core])
                        found = Span(start, stop, article + self._write(spoken, value) + ending)
                        break
                key += _key(word.core)
                if word.tail or (stop < len(words) and words[stop].head.strip()):
                    break
            if found:
                break
        return found


def written(spoken: str, value: str) -> str:
    """Return *value*, with a capital where *spoken* has one at the beginning of a sentence."""
    return value[:1].upper() + value[1:] if value.islower() and spoken[:1].isupper() else value


def parse_entries(text: str, *, owner: str) -> dict[str, str]:
    """
    Return the replacements of *text*, separated by semicolons or line ends.

    "spoken=written" replaces, a name alone is spelled as given, and a line that begins with # is a
    comment.  Raises OptionError for an entry without a word on either side.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = {}
    for entry in ";".join(lines).split(";"):
        if not entry.strip():
            continue
        spoken, equals, value = (part.strip() for part in entry.partition("="))
        if not equals:
            value = spoken
        if not _key(spoken) or not value or not value.isprintable():
            raise OptionError(
                f'{owner}: expected "spoken=written" or a name, got {entry.strip()!r}; words '
                "cannot be removed, but can be masked: spoken=***"
            )
        entries[spoken] = value
    return entries


def read_entries(path: Path, *, owner: str) -> dict[str, str]:
    """Return the replacements of a file; raises OptionError if it cannot be read."""
    try:
        return parse_entries(path.read_text(encoding="utf-8-sig"), owner=owner)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{owner}: expected a text file in UTF-8: {path}: {error}") from error


def _beginnings(word: Word) -> list[tuple[str, str]]:
    """Return the core, and the core without l' and the like, each after what it leaves out."""
    match = _ELISION.fullmatch(word.core)
    return [("", word.core), *([(match[1], match[2])] if match else [])]


def _ends(word: Word) -> list[tuple[str, str]]:
    """Return the core, and the core without 's, each before what it leaves out."""
    match = _POSSESSIVE.fullmatch(word.core)
    return [(word.core, ""), *([(match[1], match[2])] if match else [])]


def _key(text: str) -> str:
    return _IGNORED.sub("", text).casefold()
