"""The contract of a translator: committed tokens in, each translated once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wlk_conformance.annotators.suite import (
    AnnotatorRules,
    annotator_rule,
    check_failure,
    check_no_work,
)
from wlk_core import EPS, ASRToken
from wlk_core.annotators import Translator
from wlk_core.session import Translation

if TYPE_CHECKING:
    from wlk_core.annotators import AnnotatorKind
    from wlk_core.tokens import TranslatedText

__all__ = ["TranslatorConformance"]

_UTTERANCES = (
    " The train to the coast leaves at nine.",
    " We have two hours to wait, so let us have breakfast.",
    " I would like coffee and bread.",
)


def _tokens(text: str, start: float) -> tuple[ASRToken, ...]:
    words = [f" {word}" for word in text.split()]
    return tuple(
        ASRToken(start + 0.4 * i, start + 0.4 * i + 0.3, word) for i, word in enumerate(words)
    )


class TranslatorConformance(AnnotatorRules[Translator]):
    """
    The contract of a translator, as tests.

    A test module of the plugin contains::

        class TestOpus(TranslatorConformance):
            annotator = "opus"
    """

    kind: ClassVar[AnnotatorKind] = "translator"
    utterances: ClassVar[tuple[str, ...]] = _UTTERANCES  #: in the language that is translated

    def tokens(self) -> list[tuple[ASRToken, ...]]:
        """Return the tokens of each utterance."""
        return [_tokens(text, 100.0 * number) for number, text in enumerate(self.utterances)]

    @annotator_rule("TRA-01")
    def test_a_translation_has_the_times_of_its_tokens(self) -> None:
        """A translation begins where one of its tokens begins and ends where one ends."""
        tokens = [token for utterance in self.tokens() for token in utterance]
        for text in self._run():
            assert any(abs(text.start - token.start) <= EPS for token in tokens), (
                f"no token begins where {text} does"
            )
            assert any(abs(text.end - token.end) <= EPS for token in tokens), (
                f"no token ends where {text} does"
            )
            assert text.start <= text.end, f"{text} runs backwards"

    @annotator_rule("TRA-02")
    def test_each_token_is_translated_once(self) -> None:
        """Every token lies in one translation, whatever the order in which they come."""
        texts = self._run()
        for token in (token for utterance in self.tokens() for token in utterance):
            middle = (token.start + token.end) / 2
            count = sum(text.start <= middle <= text.end for text in texts)
            assert count == 1, f"{token.text!r} at {token.start:.1f} s has {count} translations"

    @annotator_rule("TRA-03")
    def test_the_last_call_returns_everything(self) -> None:
        """`process_iter(is_last=True)` translates all that is left; a second one nothing."""
        translator, (first, *_) = self.open(), self.tokens()
        translator.insert_tokens(first)
        found = [*translator.process_iter(), *translator.process_iter(is_last=True)]
        assert found, "an utterance that is over has no translation"
        assert max(text.end for text in found) >= first[-1].end - EPS, "the last words are missing"
        again: list[TranslatedText] = []
        check_no_work(
            translator,
            lambda: again.extend(translator.process_iter(is_last=True)),
            "a second last call",
        )

        assert not again, f"{again[0]} came with a second last call"

    @annotator_rule("TRA-04")
    def test_nothing_comes_without_tokens(self) -> None:
        """A translator without new tokens returns nothing and runs no model."""
        translator = self.open()
        found: list[TranslatedText] = []
        check_no_work(
            translator,
            lambda: found.extend(
                [*translator.process_iter(), *translator.process_iter(is_last=True)]
            ),
            "a call without tokens",
        )

        assert not found, f"{found[0]} came without tokens"

    @annotator_rule("TRA-05")
    def test_inserting_runs_no_model(self) -> None:
        """`insert_tokens` runs no model."""
        translator, (first, *_) = self.open(), self.tokens()

        check_no_work(translator, lambda: translator.insert_tokens(first), "inserting tokens")

    @annotator_rule("TRA-06")
    def test_a_translation_has_a_text_and_a_language(self) -> None:
        """The text of a translation is not blank, has no U+FFFD, and names its language."""
        for text in self._run():
            assert isinstance(text.text, str), f"{text} has no text"
            assert text.text.strip(), f"{text} is blank"
            assert "\N{REPLACEMENT CHARACTER}" not in text.text, f"{text} has broken characters"
            assert isinstance(text.language, str), f"{text} names no language"
            assert text.language, f"{text} names no language"

    @annotator_rule("TRA-07")
    def test_a_reset_gives_a_new_translator(self) -> None:
        """After `reset` the same tokens have the translations of a new translator."""
        translator = self.open()
        translator.insert_tokens(self.tokens()[1])
        list(translator.process_iter())
        translator.reset()

        assert self._run() == self._feed(translator), "a reset changed the translations"

    @annotator_rule("TRA-08")
    def test_two_translators_share_nothing(self) -> None:
        """Interleaved streams have the translations of single ones."""
        first, second = self.open(), self.open()
        found: list[TranslatedText] = []
        for tokens in self.tokens():
            for token in tokens:
                first.insert_tokens((token,))
                second.insert_tokens((token, token))
                found += first.process_iter()
                list(second.process_iter())
            found += first.process_iter(is_last=True)

        assert self._run() == found, "another stream changed the translations"

    @annotator_rule("TRA-09", kinds="F")
    def test_a_failure_changes_nothing(self) -> None:
        """A call whose model fails raises and changes nothing: made again, it translates."""
        (first, *_) = self.tokens()
        sound, translator = self.open(), self.open_failing(1)
        for part in (sound, translator):
            part.insert_tokens(first)
        expected = list(sound.process_iter(is_last=True))
        found = check_failure(lambda: list(translator.process_iter(is_last=True)))

        assert expected == found, "a failure changed the translations"

    @annotator_rule("TRA-10")
    def test_a_translator_is_closed_twice(self) -> None:
        """`close` may be called again."""
        self.close_twice()

    @annotator_rule("TRA-11")
    def test_a_session_commits_the_same_words(self) -> None:
        """A session commits the same words with the translator, and reports its translations."""
        events = self.run_session("translator")

        assert any(isinstance(event, Translation) for event in events), "nothing was translated"

    def _run(self) -> list[TranslatedText]:
        return self._feed(self.open())

    def _feed(self, translator: Translator) -> list[TranslatedText]:
        found: list[TranslatedText] = []
        for tokens in self.tokens():
            for token in tokens:
                translator.insert_tokens((token,))
                found += translator.process_iter()
            found += translator.process_iter(is_last=True)
        return found
