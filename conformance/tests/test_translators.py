"""The contract of translators: a sound one keeps it, and each faulty one breaks its rule."""

from __future__ import annotations

import attrs
from faulty_annotators import (
    DeletesAtClose,
    HidesFailure,
    OpensPart,
    broken_by,
    each_faulty,
    rules_of,
)

from wlk_conformance.annotators import TranslatorConformance
from wlk_conformance.testing.annotators import ScriptedTranslator
from wlk_core.tokens import TranslatedText


class TestScriptedTranslator(OpensPart, TranslatorConformance):
    """The sound translator keeps every rule."""

    part = ScriptedTranslator


class OwnClock(ScriptedTranslator):
    """Counts its own seconds."""

    def process_iter(self, is_last=False):
        """Return other times."""
        return [
            attrs.evolve(text, start=text.start + 0.1) for text in super().process_iter(is_last)
        ]


class Backwards(ScriptedTranslator):
    """Confuses start and end."""

    def process_iter(self, is_last=False):
        """Return times that run backwards."""
        return [
            attrs.evolve(text, start=text.end - 0.3, end=text.start + 0.3)
            for text in super().process_iter(is_last)
        ]


class Twice(ScriptedTranslator):
    """Translates with and without context."""

    def process_iter(self, is_last=False):
        """Return each translation twice."""
        return super().process_iter(is_last) * 2


class DropsTheFirst(ScriptedTranslator):
    """Skips the first word of each utterance."""

    def process_iter(self, is_last=False):
        """Leave it out."""
        self._waiting = self._waiting[1:] if is_last else self._waiting
        return super().process_iter(is_last)


class WaitsForMore(ScriptedTranslator):
    """Translates an utterance when the next one begins."""

    before = ()

    def process_iter(self, is_last=False):
        """Return what waited before."""
        found = super().process_iter(is_last)
        found, self.before = ([*self.before], found) if found else (found, self.before)
        return found


class Repeats(ScriptedTranslator):
    """Returns the last translation with each last call."""

    last = ()

    def process_iter(self, is_last=False):
        """Return it again."""
        found = super().process_iter(is_last)
        repeated = [*self.last] if is_last and not found else found
        self.last = found
        return repeated


class TranslatesNothing(ScriptedTranslator):
    """Runs its model without text."""

    def process_iter(self, is_last=False):
        """Run the model."""
        if is_last and not self._waiting:
            self._call_model()
        return super().process_iter(is_last)


class Greets(ScriptedTranslator):
    """Begins with a text of its own."""

    has_greeted = False

    def process_iter(self, is_last=False):
        """Return a text without tokens."""
        if not (self._waiting or self.has_greeted):
            self.has_greeted = True
            return [TranslatedText("WELCOME", 0.0, 0.3, "upper")]
        return super().process_iter(is_last)


class Eager(ScriptedTranslator):
    """Runs its model while tokens are inserted."""

    def insert_tokens(self, tokens):
        """Run the model."""
        super().insert_tokens(tokens)
        self.calls += 1


class Blank(ScriptedTranslator):
    """Returns nothing but white space."""

    def process_iter(self, is_last=False):
        """Return a blank text."""
        return [attrs.evolve(text, text=" ") for text in super().process_iter(is_last)]


class Broken(ScriptedTranslator):
    """Cuts characters in half."""

    def process_iter(self, is_last=False):
        """Return a replacement character."""
        return [attrs.evolve(text, text="CAF\ufffd") for text in super().process_iter(is_last)]


class NoLanguage(ScriptedTranslator):
    """Names no language."""

    def process_iter(self, is_last=False):
        """Return texts of no language."""
        return [attrs.evolve(text, language="") for text in super().process_iter(is_last)]


class KeepsItsTokens(ScriptedTranslator):
    """Does not reset."""

    def reset(self):
        """Do nothing."""


class RemembersStyle(ScriptedTranslator):
    """Writes in lower case after a reset."""

    is_loud = True

    def reset(self):
        """Change the style."""
        super().reset()
        self.is_loud = False

    def process_iter(self, is_last=False):
        """Return texts in the style of now."""
        found = super().process_iter(is_last)
        return found if self.is_loud else [attrs.evolve(t, text=t.text.lower()) for t in found]


class Sharing(ScriptedTranslator):
    """Keeps the words so far on the class."""

    words = 0

    def insert_tokens(self, tokens):
        """Count the words of all streams."""
        super().insert_tokens(tokens)
        Sharing.words += len(tokens)

    def process_iter(self, is_last=False):
        """Return the number of words too."""
        found = [attrs.evolve(t, text=f"{Sharing.words} {t.text}") for t in
                 super().process_iter(is_last)]  # fmt: skip
        if found:
            Sharing.words = 0
        return found


class LosesTokens(ScriptedTranslator):
    """Takes the tokens before the model fails."""

    def process_iter(self, is_last=False):
        """Drop what was inserted."""
        try:
            return super().process_iter(is_last)
        except RuntimeError:
            self._waiting = self._waiting[2:]
            raise


class Hiding(HidesFailure, ScriptedTranslator):
    """Returns nothing where its model fails."""


class ClosesOnce(DeletesAtClose, ScriptedTranslator):
    """Cannot be closed twice."""


class RefusesMany(ScriptedTranslator):
    """Refuses more than twenty tokens."""

    def insert_tokens(self, tokens):
        """Count the tokens."""
        self.count = getattr(self, "count", 0) + len(tokens)
        if self.count > 35:
            raise ValueError("too many tokens")
        super().insert_tokens(tokens)


FAULTY = [
    (OwnClock, "TRA-01"), (Backwards, "TRA-01"), (Twice, "TRA-02"), (DropsTheFirst, "TRA-02"),
    (WaitsForMore, "TRA-03"), (Repeats, "TRA-03"), (TranslatesNothing, "TRA-04"),
    (Greets, "TRA-04"), (Eager, "TRA-05"), (Blank, "TRA-06"), (Broken, "TRA-06"),
    (NoLanguage, "TRA-06"), (KeepsItsTokens, "TRA-07"), (RemembersStyle, "TRA-07"),
    (Sharing, "TRA-08"), (LosesTokens, "TRA-09"), (Hiding, "TRA-09"), (ClosesOnce, "TRA-10"),
    (RefusesMany, "TRA-11"),
]  # fmt: skip


@each_faulty(FAULTY)
def test_a_faulty_translator_breaks_its_rule(part, rule):
    """The suite detects every one of them under its id."""
    broken = broken_by(TestScriptedTranslator, part)

    assert rule in broken, broken


def test_every_rule_is_broken_by_a_faulty_translator():
    """A rule that no translator can break is no rule."""
    assert rules_of(TranslatorConformance) == {rule for _, rule in FAULTY}
