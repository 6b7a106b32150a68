"""Show sentences to a filter as a session does, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wlk_core.plugins import ASRToken
from wlk_format.engine.text_filter import FormatFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.plugins import TextFilter

MASKS = frozenset(("profanity", "email", "card", "phone"))


def lines(name: str) -> list[list[str]]:
    """Return the fields of the lines of a file of this folder: a language, text, more text."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


def tokens_of(texts: Sequence[str], language: str | None = None) -> tuple[ASRToken, ...]:
    """Return a token for each text, one second each."""
    return tuple(
        ASRToken(float(at), at + 1.0, text, detected_language=language)
        for at, text in enumerate(texts)
    )


def words(text: str) -> list[str]:
    """Return the texts of tokens that are words, the first without a space."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


def shown(text_filter: TextFilter, tokens: Sequence[ASRToken]) -> list[str]:
    """Return the texts of the tokens that a session would commit."""
    settled: list[str] = []
    waiting: tuple[ASRToken, ...] = ()
    for token in tokens:
        waiting = take(text_filter, (*waiting, token), settled)
    if waiting:
        take(text_filter, waiting, settled, is_last=True)
    return settled


def take(
    text_filter: TextFilter,
    tokens: tuple[ASRToken, ...],
    settled: list[str],
    *,
    is_last: bool = False,
) -> tuple[ASRToken, ...]:
    """Append the texts that are settled among *tokens*; return the other tokens."""
    replacements, count = text_filter.replace(tokens, is_last=is_last)
    at = 0
    for each in replacements:
        settled += [*(token.text for token in tokens[at : each.start]), each.text]
        at = each.stop
    settled += [token.text for token in tokens[at:count]]
    return tokens[count:]


def formatted(text: str, language: str = "en", **options: object) -> str:
    """Return what a filter makes of *text*."""
    text_filter = FormatFilter(language=language, **options)
    return "".join(shown(text_filter, tokens_of(words(text))))
