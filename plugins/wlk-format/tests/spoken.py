"""Make tokens of sentences, and show them to a filter word by word, as a session does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wlk_conformance.text_filters import filtered
from wlk_core.plugins import ASRToken
from wlk_format.engine.text_filter import FormatFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def formatted(text: str, language: str = "en", **options: object) -> str:
    """Return what a filter makes of *text*."""
    text_filter = FormatFilter(language=language, **options)
    return "".join(filtered(text_filter, tokens_of(words(text))))
