"""Read a manifest: clips with their transcripts and word times, one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs
from msgspec import Meta, Struct
from msgspec.json import decode

from wlk_core.plugins import OptionError
from wlk_qwen3_simul.languages import LANGUAGES

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = (
    '{"audio": "clip.wav", "language": "en", '
    '"words": [{"text": "hello", "start": 0.31, "end": 0.74}]}'
)
_UNSPACED = frozenset({"ja", "th", "yue", "zh"})  # written without spaces between words
_Text = Annotated[str, Meta(pattern=r"\S")]


@attrs.frozen
class ClipWord:
    """A word of a transcript, in seconds from the start of its clip."""

    text: _Text
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
        """The words with the spaces before them; joined, they are the transcript."""
        space = "" if self.language in _UNSPACED else " "
        return tuple(
            word.text if index == 0 else space + word.text for index, word in enumerate(self.words)
        )


def read_manifest(path: Path) -> tuple[Clip, ...]:
    """
    Read one JSON object per line: audio (relative to the manifest), language, words with times.

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


class _Line(Struct):
    audio: _Text
    words: list[ClipWord | tuple[_Text, float, float]]  # the latter in manifests of wlk-bench
    language: str = "en"


def _clip(line: str, path: Path, number: int) -> Clip:
    place = f"{path}, line {number}"
    try:
        entry = decode(line, type=_Line)
    except (ValueError, RecursionError) as error:
        raise OptionError(
            f"{place}: expected something like {EXAMPLE}, got {line[:200]!r} ({error})"
        ) from None
    if entry.language not in LANGUAGES:
        raise OptionError(
            f"{place}: expected language as one of {', '.join(LANGUAGES)}, got {entry.language!r}"
        )
    words = [word if isinstance(word, ClipWord) else ClipWord(*word) for word in entry.words]
    floor = 0.0
    for word in words:
        if not floor <= word.start < word.end:
            raise OptionError(
                f"{place}: the word {word.text!r} from {word.start:g} to {word.end:g} s starts "
                "before the previous word, or does not end after its start"
            )
        floor = word.start
    words = [attrs.evolve(word, text=word.text.strip()) for word in words]
    return Clip(audio=path.parent / entry.audio, language=entry.language, words=tuple(words))
