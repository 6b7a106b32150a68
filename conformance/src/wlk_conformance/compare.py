"""Compare transcripts with messages that explain the difference; align words, count errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.scripted import DIGIT_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core import ASRToken
    from wlk_core.streaming import Word

INSTANT = 1e-3  # seconds: rounding allowed between times that should be equal
NUMERALS = {str(digit): word.strip() for digit, word in enumerate(DIGIT_WORDS)}
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
    """Return the words of `words_of`, each with the start of its token; "15" is "one", "five"."""
    words: list[tuple[str, float]] = []
    is_inside = False  # a word that the next token may continue
    for token in tokens:
        for character in letters(token.text):
            if character == " ":
                is_inside = False
            elif character in NUMERALS:
                words.append((NUMERALS[character], token.start))
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
    for word, token in zip(words, tokens, strict=True):
        error = max(abs(token.start - word.start - shift), abs(token.end - word.end - shift))
        if error > tolerance:
            raise AssertionError(
                f"{token.text!r} was spoken at {word.start + shift:.3f}-{word.end + shift:.3f} s "
                f"but its token is at {token.start:.3f}-{token.end:.3f} s "
                f"({error:.3f} s off, {tolerance:g} s allowed)"
            )


def start_errors(words: Sequence[Word], tokens: Sequence[ASRToken]) -> list[float]:
    """Return the seconds by which recognised words start late; none for whole recordings."""
    timed, spoken = timed_words(tokens), words_of(words)
    if len(spoken) > len(words):
        return []
    pairs = align(spoken, [word for word, _ in timed])
    return [timed[recognised][1] - words[spoken].start for spoken, recognised in pairs]
