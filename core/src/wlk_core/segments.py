"""Group committed tokens into captions: the segments of srt, vtt and json output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.tokens import ASRToken

__all__ = ["Segment", "SegmentBuilder", "segments_from_tokens"]

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "।", "؟")  # noqa: RUF001 -- scripts of users


@attrs.frozen
class Segment:
    """A caption: text of one speaker between two stream times in seconds."""

    start: float
    end: float
    text: str
    speaker: int | str | None = None


@attrs.define(kw_only=True)
class SegmentBuilder:
    """
    Build captions from tokens as they are committed, in constant memory.

    A caption ends at a pause of `max_gap` seconds, at a change of speaker, at the end of a
    sentence, and before it would last longer than `max_seconds` or hold more than
    `max_characters` (subtitle practice: two lines of 42 characters, 7 seconds).
    """

    max_gap: float = 0.8
    max_seconds: float = 7.0
    max_characters: int = 84
    _open: list[ASRToken] = attrs.field(factory=list, init=False)

    def push(self, token: ASRToken) -> Segment | None:
        """Append the next token; return the caption that it ended, if any."""
        ended = self.flush() if self._open and self._breaks_before(token) else None
        self._open.append(token)
        return ended

    def flush(self) -> Segment | None:
        """Return the caption that is still open, if any, and begin anew."""
        if not self._open:
            return None
        tokens, self._open = self._open, []
        text = "".join(token.text for token in tokens).strip()
        end = max(token.end for token in tokens)
        return Segment(tokens[0].start, end, text, tokens[0].speaker)

    def _breaks_before(self, token: ASRToken) -> bool:
        first, last = self._open[0], self._open[-1]
        if token.speaker != last.speaker or token.start - last.end >= self.max_gap:
            return True
        if not (token.text[:1].isspace() or last.text[-1:] in SENTENCE_ENDS):
            return False  # a token that continues a word stays with it
        if last.text.rstrip().endswith(SENTENCE_ENDS):
            return True
        length = sum(len(part.text) for part in self._open) + len(token.text)
        return token.end - first.start > self.max_seconds or length > self.max_characters


def segments_from_tokens(tokens: Iterable[ASRToken]) -> tuple[Segment, ...]:
    """Return the captions of a finished token sequence; nothing for no tokens."""
    builder = SegmentBuilder()
    ended = [segment for token in tokens if (segment := builder.push(token)) is not None]
    last = builder.flush()
    return (*ended, last) if last is not None else tuple(ended)
