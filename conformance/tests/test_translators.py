"""The rules of translators: a correct one keeps them, and each faulty one breaks its own."""

from __future__ import annotations

from itertools import count

import attrs
import pytest

from wlk_conformance.translators import TranslatorConformance
from wlk_core.processor import WorkCounters
from wlk_core.tokens import TranslatedText


class Upper:
    """Translates every utterance to capitals when it is over."""

    def __init__(self):
        self.calls = 0
        self.tokens = ()

    def insert_tokens(self, tokens):
        """Append tokens."""
        self.tokens += tokens

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Return the utterance that is over."""
        return self.translated() if is_last and self.tokens else []

    def translated(self):
        """Return the translation of the pending tokens."""
        self.calls += 1
        tokens, self.tokens = self.tokens, ()
        text = "".join(token.text for token in tokens).upper()
        return [TranslatedText(text, tokens[0].start, tokens[-1].end, "up")]

    def finish(self):
        """Return the translation of the rest."""
        return self.process_iter(is_last=True)

    def reset(self):
        """Forget all tokens."""
        self.tokens = ()

    def close(self):
        """Release nothing."""

    @property
    def stats(self):
        """The calls of the model."""
        return WorkCounters(decoder_forwards=self.calls)


class ByToken(Upper):
    """Translates the tokens of each call, so that their cut into calls matters."""

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Return the translation of all pending tokens."""
        return self.translated() if self.tokens else []


class Repeats(Upper):
    """Returns the last translation again at the end."""

    last = ()

    def translated(self):
        """Keep what is returned."""
        self.last = super().translated()
        return self.last

    def finish(self):
        """Return it again."""
        return list(self.last)


class Eager(Upper):
    """Runs its model for every token."""

    def insert_tokens(self, tokens):
        """Count a call for each."""
        super().insert_tokens(tokens)
        self.calls += len(tokens)


class Mute(Upper):
    """Returns blank text."""

    def translated(self):
        """Return a translation without text."""
        return [attrs.evolve(text, text=" ") for text in super().translated()]


class Remembers(Upper):
    """Keeps its tokens over a reset."""

    def reset(self):
        """Forget nothing."""


class Shared(Upper):
    """All streams number their translations together."""

    numbers = count()

    def translated(self):
        """Return a numbered translation."""
        number = next(self.numbers)
        return [attrs.evolve(text, text=f"{number} {text.text}") for text in super().translated()]


class Broken(Upper):
    """Fails in a session, whose words have no full stops."""

    def translated(self):
        """Raise for digits."""
        if "ONE" in (texts := super().translated())[0].text.split():
            raise RuntimeError("no digits")
        return texts


class Grows(Upper):
    """Translates everything so far each time."""

    utterances = 0

    def translated(self):
        """Count a call for each utterance so far."""
        self.utterances += 1
        self.calls += self.utterances
        return super().translated()


class ClosedOnce(Upper):
    """Cannot be closed again."""

    def close(self):
        """Remove itself."""
        del self.tokens


class TranslatesAtClose(Upper):
    """Translates the pending tokens when it is closed."""

    def close(self):
        """Translate."""
        self.finish()


def broken(translator):
    """Return the rules that a translator breaks."""

    class Rules(TranslatorConformance):
        def open(self):
            return translator()

    found = set()
    for name in dir(Rules):
        if name.startswith("test_trn"):
            try:
                getattr(Rules(), name)()
            except (AssertionError, AttributeError):
                found.add(name[5:11].replace("_", "-").upper())
    return found


def test_a_sound_translator_breaks_no_rule():
    """One that waits for the end of an utterance is sound."""
    assert broken(Upper) == set()


@pytest.mark.parametrize(
    ("translator", "rule"),
    [
        (Repeats, "TRN-01"),
        (ByToken, "TRN-02"),
        (Repeats, "TRN-03"),
        (Eager, "TRN-04"),
        (Mute, "TRN-05"),
        (Remembers, "TRN-06"),
        (Shared, "TRN-07"),
        (Broken, "TRN-08"),
        (Grows, "TRN-09"),
        (ClosedOnce, "TRN-10"),
        (TranslatesAtClose, "TRN-10"),
    ],
)
def test_a_fault_breaks_its_rule(translator, rule):
    """A fault is found under the rule that it breaks."""
    assert rule in broken(translator)
