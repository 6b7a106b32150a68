"""What two streams said, compared in words that a reader of a failure understands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core import ASRToken
    from wlk_core.streaming import Word

__all__ = ["check_same", "check_times", "check_words", "letters", "words_of"]

INSTANT = 1e-3  # seconds: what floating point may do to a time that is said to be the same


def words_of(tokens: Sequence[ASRToken] | Sequence[Word]) -> list[str]:
    """Return the transcript in words, without case and punctuation."""
    return letters("".join(token.text for token in tokens)).split()


def letters(text: str) -> str:
    """Return *text* in lower case with spaces for everything that is no letter or digit."""
    return "".join(c if c.isalnum() else " " for c in text.casefold())


def check_same(
    expected: Sequence[ASRToken],
    came: Sequence[ASRToken],
    *,
    what: str,
    shift: float = 0.0,
    tolerance: float = INSTANT,
) -> None:
    """
    Make sure that two streams said the same, the second one *shift* seconds later.

    Texts must be equal, one by one; starts and ends may differ by *tolerance* seconds.
    """
    check_texts([token.text for token in expected], [token.text for token in came], what=what)
    for one, other in zip(expected, came, strict=True):
        moved = max(abs(other.start - one.start - shift), abs(other.end - one.end - shift))
        if moved > tolerance:
            raise AssertionError(
                f"{what}: {one.text!r} lies at {one.start:.3f}-{one.end:.3f} s"
                + (f", {shift:g} s later" if shift else "")
                + f" in one stream and at {other.start:.3f}-{other.end:.3f} s in the other "
                f"({moved:.3f} s off, {tolerance:g} s allowed)"
            )


def check_texts(expected: Sequence[str], came: Sequence[str], *, what: str) -> None:
    """Make sure that two lists of texts are equal."""
    if list(expected) == list(came):
        return
    place = next(
        (i for i, (one, other) in enumerate(zip(expected, came, strict=False)) if one != other),
        min(len(expected), len(came)),
    )
    raise AssertionError(
        f"{what}: text {place + 1} differs: expected {_around(expected, place)}, "
        f"came {_around(came, place)} ({len(expected)} expected, {len(came)} came)"
    )


def check_words(words: Sequence[Word], tokens: Sequence[ASRToken], *, what: str) -> None:
    """Make sure that *tokens* say *words*, however they are cut into tokens."""
    check_texts(words_of(words), words_of(tokens), what=what)


def check_times(
    words: Sequence[Word], tokens: Sequence[ASRToken], *, tolerance: float, shift: float = 0.0
) -> None:
    """Make sure that each token lies where its word was said; there is one token a word."""
    if len(words) != len(tokens):
        raise AssertionError(f"expected {len(words)} tokens, one a word, {len(tokens)} came")
    for word, token in zip(words, tokens, strict=True):
        off = max(abs(token.start - word.start - shift), abs(token.end - word.end - shift))
        if off > tolerance:
            raise AssertionError(
                f"{token.text!r} was said at {word.start + shift:.3f}-{word.end + shift:.3f} s "
                f"and came at {token.start:.3f}-{token.end:.3f} s "
                f"({off:.3f} s off, {tolerance:g} s allowed)"
            )


def _around(texts: Sequence[str], place: int) -> str:
    shown = [repr(text) for text in texts[max(0, place - 2) : place + 3]]
    return " ".join(shown) if shown else "nothing"
