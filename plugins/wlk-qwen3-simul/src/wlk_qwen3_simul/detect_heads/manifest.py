"""The manifest: clips with their transcripts and word times, one JSON object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.plugins import OptionError
from wlk_qwen3_simul.languages import LANGUAGES

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EXAMPLE", "Clip", "ClipWord", "read_manifest"]

EXAMPLE = (
    '{"audio": "clip.wav", "language": "en", '
    '"words": [{"text": "hello", "start": 0.31, "end": 0.74}]}'
)
_UNSPACED = frozenset({"ja", "th", "yue", "zh"})  # written without spaces between words


@attrs.frozen(kw_only=True)
class ClipWord:
    """A word of a transcript, in seconds from the start of its clip."""

    text: str
    start: float
    end: float


@attrs.frozen(kw_only=True)
class Clip:
    """A recording, the code of its language, and its whole transcript in order."""

    audio: Path
    language: str
    words: tuple[ClipWord, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The words with their spaces: joined, they are the transcript."""
        space = "" if self.language in _UNSPACED else " "
        return tuple(
            word.text if index == 0 else space + word.text for index, word in enumerate(self.words)
        )


def read_manifest(path: Path) -> tuple[Clip, ...]:
    """
    Read one JSON object a line: audio (relative to the manifest), language, words with times.

    Raises:
        OptionError: a line is invalid, or its times go back; the message shows a valid line.

    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the manifest {path} cannot be read: {error}") from error
    clips = tuple(
        _clip(line, path, number) for number, line in enumerate(lines, start=1) if line.strip()
    )
    if not clips:
        raise OptionError(f"{path} lists no clip; expected lines such as {EXAMPLE}")
    return clips


def _clip(line: str, path: Path, number: int) -> Clip:
    try:
        table = json.loads(line)
        clip = Clip(
            audio=path.parent / _text(table["audio"]),
            language=_text(table.get("language", "en")),
            words=tuple(map(_word, table["words"])),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OptionError(
            f"{path}, line {number}: expected something like {EXAMPLE}, got {error!r}"
        ) from None
    if clip.language not in LANGUAGES:
        raise OptionError(
            f"{path}, line {number}: expected language as one of {', '.join(LANGUAGES)}, got "
            f"{clip.language!r}"
        )
    floor = 0.0
    for word in clip.words:
        if not floor <= word.start < word.end:
            raise OptionError(
                f"{path}, line {number}: the word {word.text!r} from {word.start:g} to "
                f"{word.end:g} s begins before the word in front of it, or never ends"
            )
        floor = word.start
    return clip


def _word(entry: Any) -> ClipWord:
    """Return a word from an object, or from the list of text, start and end of wlk-bench."""
    if not isinstance(entry, list):
        entry = entry["text"], entry["start"], entry["end"]
    text, start, end = entry
    return ClipWord(text=_text(text), start=float(start), end=float(end))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"expected text, got {value!r}")
    return value.strip()
