"""The rules of text filters: a correct one keeps them, and each faulty one breaks its own."""

from __future__ import annotations

from itertools import count
import threading

import attrs
import pytest

from wlk_conformance.testing.annotators import DigitFilter
from wlk_conformance.text_filters import TextFilterConformance
from wlk_core.annotators import Replacement


class Raises(DigitFilter):
    """Raises for a number."""

    def replace(self, tokens, *, is_last):
        """Raise once there is something to replace."""
        found, settled = super().replace(tokens, is_last=is_last)
        if found:
            raise RuntimeError("no figures")
        return found, settled


class Hangs(DigitFilter):
    """Does not return for a long clause."""

    def replace(self, tokens, *, is_last):
        """Wait for ever."""
        if len(tokens) > 60:
            threading.Event().wait()
        return super().replace(tokens, is_last=is_last)


class Drops(DigitFilter):
    """Leaves out the word after a number."""

    def replace(self, tokens, *, is_last):
        """Widen each replacement by a token."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [attrs.evolve(each, stop=min(each.stop + 1, settled)) for each in found], settled


class Invents(DigitFilter):
    """Adds a word to a number."""

    def replace(self, tokens, *, is_last):
        """Write more than what was spoken."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [attrs.evolve(each, text=f"{each.text} euros") for each in found], settled


class Overlaps(DigitFilter):
    """Returns each replacement twice."""

    def replace(self, tokens, *, is_last):
        """Repeat what was found."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [*found, *found], settled


class Waits(DigitFilter):
    """Leaves a number unsettled at the end of its clause."""

    def replace(self, tokens, *, is_last):
        """Never say that the clause is over."""
        del is_last
        return super().replace(tokens, is_last=False)


class TakesTokensForWords(DigitFilter):
    """Reads each token as a word, and settles it when the next one comes."""

    def replace(self, tokens, *, is_last):
        """Put a space before each token, and take it away from what is written."""
        spaced = tuple(attrs.evolve(each, text=f" {each.text.strip()}") for each in tokens)
        found, settled = super().replace(spaced, is_last=is_last)
        spaces = {each.start: " " * tokens[each.start].text.startswith(" ") for each in found}
        written = [attrs.evolve(e, text=spaces[e.start] + e.text.strip()) for e in found]
        return written, settled


class SettlesBeginnings(DigitFilter):
    """Joins the tokens of a word, but takes a word for whole before the next one begins."""

    def replace(self, tokens, *, is_last):
        """Settle a number once it cannot be longer, in whole words."""
        words = "".join(each.text for each in tokens).split()
        is_full = len(words) == 3 or (words and words[-1] in ("seven", "two"))
        return super().replace(tokens, is_last=is_last or is_full)


class Hurries(DigitFilter):
    """Settles each word at once, so that a number is joined only if it comes at once."""

    def replace(self, tokens, *, is_last):
        """Treat every call as the last one."""
        del is_last
        return super().replace(tokens, is_last=True)


class Remembers(DigitFilter):
    """Numbers what it writes."""

    def __init__(self):
        super().__init__()
        self.numbers = count()

    def replace(self, tokens, *, is_last):
        """Write another number each time."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [attrs.evolve(each, text=f" {next(self.numbers)}") for each in found], settled


class Shares(Remembers):
    """Numbers what it writes in all sessions together."""

    everything = count()

    def __init__(self):
        super().__init__()
        self.numbers = self.everything


class Fussy(DigitFilter):
    """Knows only letters of ASCII."""

    def replace(self, tokens, *, is_last):
        """Encode the text."""
        "".join(token.text for token in tokens).encode("ascii")
        return super().replace(tokens, is_last=is_last)


class Prints(DigitFilter):
    """Reports progress on standard output."""

    def replace(self, tokens, *, is_last):
        """Print the number of words."""
        print(len(tokens))  # noqa: T201 -- the fault
        return super().replace(tokens, is_last=is_last)


class Unspaced(DigitFilter):
    """Forgets the space before a number."""

    def replace(self, tokens, *, is_last):
        """Strip the text."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [attrs.evolve(each, text=each.text.strip()) for each in found], settled


class Controls(DigitFilter):
    """Writes in colour."""

    def replace(self, tokens, *, is_last):
        """Add codes for a terminal."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [attrs.evolve(each, text=f"{each.text}\x1b[0m") for each in found], settled


class Erases(DigitFilter):
    """Replaces a number by nothing."""

    def replace(self, tokens, *, is_last):
        """Return blank text."""
        found, settled = super().replace(tokens, is_last=is_last)
        return [Replacement(each.start, each.stop, "") for each in found], settled


class ClosedOnce(DigitFilter):
    """Cannot be closed again."""

    def close(self):
        """Remove itself."""
        del self.is_closed


class Uncounted(DigitFilter):
    """Has no counters."""

    stats = None


class Idle(DigitFilter):
    """Changes nothing."""

    def replace(self, tokens, *, is_last):
        """Settle every word."""
        del is_last
        return [], len(tokens)


class Rules(TextFilterConformance):
    """The rules for filters of digits."""

    examples = {  # noqa: RUF012 -- as authors write it
        "It is four two seven, not four two then.": "It is 427, not 42 then.",
        "one two": "12",
    }
    unchanged = ("It is fourteen, or seventeen.",)


def broken(text_filter):
    """Return the rules that a filter breaks."""

    class Of(Rules):
        seconds = 0.02 if text_filter is Hangs else 10.0

        def open(self):
            return text_filter()

    found = set()
    for name in dir(Of):
        if name.startswith("test_flt"):
            try:
                getattr(Of(), name)()
            except (AssertionError, AttributeError, RuntimeError, UnicodeError):
                found.add(name[5:11].replace("_", "-").upper())
    return found


def test_a_sound_filter_breaks_no_rule():
    """One that settles each number when it has ended is sound."""
    assert broken(DigitFilter) == set()


@pytest.mark.parametrize(
    ("text_filter", "rule"),
    [
        (Drops, "FLT-01"),
        (Invents, "FLT-01"),
        (Idle, "FLT-01"),
        (Overlaps, "FLT-02"),
        (Unspaced, "FLT-02"),
        (Controls, "FLT-02"),
        (Erases, "FLT-02"),
        (Waits, "FLT-03"),
        (Hurries, "FLT-04"),
        (TakesTokensForWords, "FLT-04"),
        (SettlesBeginnings, "FLT-04"),
        (Remembers, "FLT-05"),
        (Shares, "FLT-05"),
        (Fussy, "FLT-06"),
        (Raises, "FLT-06"),
        (Prints, "FLT-07"),
        (Hangs, "FLT-08"),
        (ClosedOnce, "FLT-09"),
        (Uncounted, "FLT-09"),
    ],
)
def test_a_fault_breaks_its_rule(text_filter, rule):
    """A fault is found under the rule that it breaks."""
    assert rule in broken(text_filter)


def test_a_filter_without_examples_proves_nothing():
    """The suite asks for clauses that the filter changes."""

    class Bare(TextFilterConformance):
        def open(self):
            return DigitFilter()

    with pytest.raises(AssertionError, match="declare examples that the filter changes"):
        Bare().test_flt_01_the_examples_are_written_as_declared()
