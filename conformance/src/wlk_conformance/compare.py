"""Compare transcripts with messages that explain the difference; align words, count errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_conformance.scripted import DIGIT_WORDS
from wlk_core.streaming import is_unspaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core import ASRToken
    from wlk_core.streaming import Word

INSTANT = 1e-3  # seconds: rounding allowed between times that should be equal
NUMERALS = {str(digit): word.strip() for digit, word in enumerate(DIGIT_WORDS)}
FEWEST = 4  # words from which a pattern of errors is named
SMALL = 0.02  # seconds: a median error without a pattern worth naming
EXPLAINED = 0.34  # share of the median error that an explanation may leave
CLOCK_ERROR = 1e-6  # seconds: rounding allowed in a clock that counts samples


def word_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the least number of substitutions, insertions and deletions between the two."""
    return round(_distances(reference, hypothesis, [1.0] * len(reference))[-1][-1])


def align(
    reference: Sequence[str], hypothesis: Sequence[str], *, omissions: Sequence[float] = ()
) -> list[tuple[int, int]]:
    """Return the index pairs of equal words in a best alignment; an omission costs 1 by default."""
    omissions = omissions or [1.0] * len(reference)
    distances = _distances(reference, hypothesis, omissions)
    pairs: list[tuple[int, int]] = []
    i, j = len(reference), len(hypothesis)
    while i and j:
        is_equal = reference[i - 1] == hypothesis[j - 1]
        if is_equal and distances[i][j] == distances[i - 1][j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif distances[i][j] == distances[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
        elif distances[i][j] == distances[i - 1][j] + omissions[i - 1]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _distances(
    reference: Sequence[str], hypothesis: Sequence[str], omissions: Sequence[float]
) -> list[list[float]]:
    """Return the edit distances of all prefixes (Levenshtein 1965)."""
    table: list[list[float]] = [[float(j) for j in range(len(hypothesis) + 1)]]
    for i, (expected, omission) in enumerate(zip(reference, omissions, strict=True), 1):
        row = [table[i - 1][0] + omission]
        for j, actual in enumerate(hypothesis, 1):
            substitution = table[i - 1][j - 1] + (0 if expected == actual else 1)
            row.append(min(substitution, table[i - 1][j] + omission, row[j - 1] + 1))
        table.append(row)
    return table


def check_clock(actual: float, expected: float) -> None:
    """Assert that `processed_up_to` is what the clock of samples and silences expects."""
    if abs(actual - expected) > CLOCK_ERROR:
        raise AssertionError(f"processed_up_to is {actual:.6f} s, expected {expected:.6f} s")


def words_of(tokens: Sequence[ASRToken] | Sequence[Word]) -> list[str]:
    """Return the transcript in words, without case and punctuation, digits spelled out."""
    return [word for word, _ in timed_words(tokens)]


def timed_words(tokens: Sequence[ASRToken] | Sequence[Word]) -> list[tuple[str, float]]:
    """
    Return the words of `words_of`, each with the start of its token; "15" is "one", "five".

    In a script without spaces each character counts as a word; otherwise the whole transcript would
    be a single one.
    """
    words: list[tuple[str, float]] = []
    is_inside = False  # a word that the next token may continue
    for token in tokens:
        for character in letters(token.text):
            if character == " ":
                is_inside = False
            elif character in NUMERALS:
                words.append((NUMERALS[character], token.start))
                is_inside = False
            elif not character.isascii() and is_unspaced(character):
                words.append((character, token.start))
                is_inside = False
            elif is_inside:
                words[-1] = (words[-1][0] + character, words[-1][1])
            else:
                words.append((character, token.start))
                is_inside = True
    return words


def letters(text: str) -> str:
    """Return *text* in lower case, with spaces for all characters but letters and digits."""
    return "".join(c if c.isalnum() else " " for c in text.casefold())


def check_same(
    expected: Sequence[ASRToken],
    actual: Sequence[ASRToken],
    *,
    what: str,
    shift: float = 0.0,
    tolerance: float = INSTANT,
) -> None:
    """
    Assert that two streams have the same tokens, the second stream *shift* seconds later.

    Texts must be equal, token by token; starts and ends may differ by *tolerance* seconds.
    """
    check_texts([token.text for token in expected], [token.text for token in actual], what=what)
    for first, second in zip(expected, actual, strict=True):
        error = max(abs(second.start - first.start - shift), abs(second.end - first.end - shift))
        if error > tolerance:
            raise AssertionError(
                f"{what}: {first.text!r} is at {first.start:.3f}-{first.end:.3f} s"
                + (f", {shift:g} s later" if shift else "")
                + f" in the first stream and at {second.start:.3f}-{second.end:.3f} s in the "
                f"second ({error:.3f} s off, {tolerance:g} s allowed)"
            )


def check_texts(expected: Sequence[str], actual: Sequence[str], *, what: str) -> None:
    """Assert that two lists of texts are equal."""
    if list(expected) == list(actual):
        return
    index = 0  # of the first text that differs
    for first, second in zip(expected, actual, strict=False):
        if first != second:
            break
        index += 1
    raise AssertionError(
        f"{what}: text {index + 1} differs: expected {_near(expected, index)}, got "
        f"{_near(actual, index)} ({len(expected)} expected, {len(actual)} received)"
    )


def _near(texts: Sequence[str], index: int) -> str:
    return " ".join(map(repr, texts[max(0, index - 2) : index + 3])) or "nothing"


def check_words(words: Sequence[Word], tokens: Sequence[ASRToken], *, what: str) -> None:
    """Assert that *tokens* spell *words*, however the text is cut into tokens."""
    check_texts(words_of(words), words_of(tokens), what=what)


def check_times(
    words: Sequence[Word], tokens: Sequence[ASRToken], *, tolerance: float, shift: float = 0.0
) -> None:
    """Assert that each word has one token, at the time when it was spoken."""
    if len(words) != len(tokens):
        raise AssertionError(f"expected {len(words)} tokens, one per word, got {len(tokens)}")
    pattern = start_pattern(
        [(word.start + shift, word.end + shift) for word in words],
        [token.start for token in tokens],
    )
    for word, token in zip(words, tokens, strict=True):
        error = max(abs(token.start - word.start - shift), abs(token.end - word.end - shift))
        if error > tolerance:
            raise AssertionError(
                f"{token.text!r} was spoken at {word.start + shift:.3f}-{word.end + shift:.3f} s "
                f"but its token is at {token.start:.3f}-{token.end:.3f} s "
                f"({error:.3f} s off, {tolerance:g} s allowed)" + (pattern and f"; {pattern}")
            )


def start_errors(words: Sequence[Word], tokens: Sequence[ASRToken]) -> list[float]:
    """Return the seconds by which recognised words start late; none for whole recordings."""
    spoken, starts = recognised_starts(words, tokens)
    return [start - begin for (begin, _), start in zip(spoken, starts, strict=True)]


def recognised_starts(
    words: Sequence[Word], tokens: Sequence[ASRToken]
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return when each recognised word was spoken, and when its token starts; see start_errors."""
    timed, spoken = timed_words(tokens), words_of(words)
    if len(spoken) > len(words):
        return [], []
    pairs = align(spoken, [word for word, _ in timed])
    times = [(words[word].start, words[word].end) for word, _ in pairs]
    return times, [timed[recognised][1] for _, recognised in pairs]


def start_pattern(spoken: Sequence[tuple[float, float]], starts: Sequence[float]) -> str:
    """
    Return what explains the errors of *starts* best, "" if they are small or nothing does.

    *spoken* has the true start and end of each word.
    """
    if len(starts) < FEWEST:
        return ""
    true, found = np.array([start for start, _ in spoken]), np.array(starts)
    ends = np.array([end for _, end in spoken])
    errors = found - true
    offset = float(np.median(errors))
    # Seconds of pauses before each word, and the times of words that are equally far apart.
    quiet = np.concatenate([[true[0]], np.maximum(0.0, true[1:] - ends[:-1])]).cumsum()
    even = np.linspace(true[0], true[-1], len(true))
    slope, first = np.polyfit(true, errors, 1)
    guesses = {
        f"every word starts about {abs(offset):.2f} s too {_side(offset)}: an offset": (
            errors - offset
        ),
        "each word is too early by the pauses before it: audio without speech was left out, and "
        "its time not added again": errors + quiet,
        "the words start at equal distances: they are spread evenly over a span, and not where "
        "the model found them": found - even,
        f"the error grows by {60 * slope:+.2f} s per minute of audio: a drift, such as a wrong "
        "length of frames": errors - slope * true - first,
    }
    # The first that leaves little is named, because an offset is a drift of zero, for example.
    typical = float(np.median(np.abs(errors)))
    for text, rest in guesses.items():
        if typical > SMALL and float(np.median(np.abs(rest))) <= EXPLAINED * typical:
            return text
    return ""


def _side(seconds: float) -> str:
    return "late" if seconds > 0 else "early"
