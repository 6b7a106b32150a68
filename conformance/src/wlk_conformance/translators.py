"""
The contract of a translator: rules TRN, as a test class that plugins inherit.

One rule runs a session of wlk-live, which the extra ``wlk-conformance[translators]`` installs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_conformance.extras import missing_extra
from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core.registry import Registry
from wlk_core.tokens import ASRToken

try:
    from wlk_live.session import Commit, Failure, Session, Translation
except ModuleNotFoundError as error:
    raise missing_extra("translators", error) from error

if TYPE_CHECKING:
    from wlk_core.plugins import Translator
    from wlk_core.tokens import TranslatedText
    from wlk_live.session import Event

_SPEECH = encode([CodedToken(1 + i % 10, 6 * i, 4) for i in range(20)], cells=126)


class TranslatorConformance:
    """
    The contract of a translator.

    A test module of the plugin contains::

        class TestOpus(TranslatorConformance):
            translator = "opus-mt"
            options = {"source_language": "en", "target_language": "de"}
    """

    translator: ClassVar[str] = ""  #: the name of an installed translator; or override `open`
    model: ClassVar[str | None] = None  #: the model to load, None for the spec's default
    options: ClassVar[dict[str, Any]] = {}  #: options of the translator, by name
    utterances: ClassVar[tuple[str, ...]] = (  #: in the source language
        "The train to the coast leaves at nine. It is late.",
        "We have two hours to wait, so let us have breakfast",
        "I would like coffee and bread.",
    )

    def open(self) -> Translator:
        """Return a new translator."""
        translator: Translator = Registry().load_annotator(
            "translator", self.translator, self.model, **self.options
        )
        return translator

    def test_trn_01_every_token_is_translated_once(self) -> None:
        """Each lies in one translation, which has the times of its first and its last token."""
        translations = self._run()
        tokens = [token for tokens in self._tokens() for token in tokens]
        for token in tokens:
            count = sum(t.start <= token.start and token.end <= t.end for t in translations)
            assert count == 1, f"{token.text!r} at {token.start} s is in {count} translations"
        for text in translations:
            assert text.start in {token.start for token in tokens}, f"no token begins with {text}"
            assert text.end in {token.end for token in tokens}, f"no token ends with {text}"
        assert sorted(translations, key=lambda t: t.start) == translations, "texts are out of order"

    def test_trn_02_the_cut_of_the_tokens_changes_nothing(self) -> None:
        """Tokens inserted one by one or an utterance at a time have the same translations."""
        translator = self.open()
        translations: list[TranslatedText] = []
        for tokens in self._tokens():
            translator.insert_tokens(tokens)
            translations += translator.process_iter(is_last=True)
        translations += translator.finish()

        assert translations == self._run()

    def test_trn_03_nothing_comes_without_tokens(self) -> None:
        """A call without new tokens, and a second `finish`, return nothing and run no model."""
        translator = self.open()
        excess = [*translator.process_iter(), *translator.process_iter(is_last=True)]
        self._feed(translator)
        before = translator.stats
        excess += [*translator.finish(), *translator.process_iter(is_last=True)]

        assert not excess, f"{excess[0]} was returned without new tokens"
        assert translator.stats == before, "the model ran without new tokens"

    def test_trn_04_inserting_runs_no_model(self) -> None:
        """`insert_tokens` only stores the tokens."""
        translator = self.open()
        before = translator.stats
        translator.insert_tokens(self._tokens()[0])

        assert translator.stats == before

    def test_trn_05_a_translation_is_text_in_its_language(self) -> None:
        """It is not blank, has no U+FFFD, and names the language that was asked for."""
        requested = self.options.get("target_language")
        for text in self._run():
            assert text.text.strip(), f"{text} is blank"
            assert "\N{REPLACEMENT CHARACTER}" not in text.text, f"{text} has broken characters"
            assert text.language, f"{text} names no language"
            assert requested in {None, text.language}, f"{text} is not in {requested}"

    def test_trn_06_a_reset_gives_a_new_translator(self) -> None:
        """Earlier tokens are not translated and do not affect later translations."""
        translator = self.open()
        translator.insert_tokens(self._tokens()[1][:-1])
        list(translator.process_iter())
        translator.reset()

        assert self._feed(translator) == self._run()

    def test_trn_07_streams_share_nothing(self) -> None:
        """Two that are interleaved have the translations of single ones."""
        first, second = self.open(), self.open()
        translations: list[TranslatedText] = []
        for tokens in self._tokens():
            for token in tokens:
                second.insert_tokens((token, attrs.evolve(token, text=" one")))
                list(second.process_iter())
                first.insert_tokens((token,))
                translations += first.process_iter()
            translations += first.process_iter(is_last=True)
        translations += first.finish()

        assert translations == self._run()

    def test_trn_08_a_session_commits_the_same_words(self) -> None:
        """A session reports translations, no failure, and the same commits as without."""
        alone, events = _session({}), _session({"translator": self.open()})
        failures = [event.error for event in events if isinstance(event, Failure)]

        assert not failures, failures[0]
        expected = [event for event in alone if isinstance(event, Commit)]
        assert [event for event in events if isinstance(event, Commit)] == expected
        assert any(isinstance(event, Translation) for event in events), "nothing was translated"

    def test_trn_09_work_does_not_grow(self) -> None:
        """An utterance costs what it cost many utterances before."""
        translator = self.open()
        spent: list[dict[str, int | None]] = []  # in each minute
        for minute in range(20):
            before = attrs.asdict(translator.stats)
            self._feed(translator, 1000.0 * minute)
            after = attrs.asdict(translator.stats)
            spent.append(
                {
                    name: None if count is None else count - (before[name] or 0)
                    for name, count in after.items()
                }
            )

        assert spent[-1] == spent[2]

    def test_trn_10_a_translator_is_closed_twice(self) -> None:
        """`close` may be called again, and runs no model even if tokens are waiting."""
        translator = self.open()
        translator.insert_tokens(self._tokens()[0][:1])  # a clause that has not ended
        list(translator.process_iter())
        before = translator.stats
        translator.close()
        translator.close()

        assert translator.stats == before, "closing ran the model"

    def _tokens(self, shift: float = 0.0) -> list[tuple[ASRToken, ...]]:
        """Return the tokens of each utterance, moved by *shift* seconds."""
        tokens = []
        for number, text in enumerate(self.utterances):
            first = shift + 100.0 * number
            starts = [first + 0.4 * index for index in range(len(text.split()))]
            words = zip(starts, text.split(), strict=True)
            tokens.append(tuple(ASRToken(start, start + 0.3, f" {word}") for start, word in words))
        return tokens

    def _run(self) -> list[TranslatedText]:
        return self._feed(self.open())

    def _feed(self, translator: Translator, shift: float = 0.0) -> list[TranslatedText]:
        translations: list[TranslatedText] = []
        for tokens in self._tokens(shift):
            for token in tokens:
                translator.insert_tokens((token,))
                translations += translator.process_iter()
            translations += translator.process_iter(is_last=True)
        return [*translations, *translator.finish()]


def _session(annotators: dict[str, Any]) -> list[Event]:
    with ScriptedBackend() as backend:
        session = Session(backend.create_processor(), **annotators)
        events = [event for chunk in partition(_SPEECH, 0.5) for event in session.feed(chunk)]
        return events + session.finish()
