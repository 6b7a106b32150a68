"""The contract of a translator: rules TRN, as tests that a plugin's test module inherits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core.registry import Registry
from wlk_core.session import Commit, Failure, Session, Translation
from wlk_core.tokens import ASRToken

if TYPE_CHECKING:
    from wlk_core.plugins import Translator
    from wlk_core.session import Event
    from wlk_core.tokens import TranslatedText

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
    options: ClassVar[dict[str, Any]] = {}  #: of the translator, by name
    utterances: ClassVar[tuple[str, ...]] = (  #: in the language that is translated
        "The train to the coast leaves at nine. It is late.",
        "We have two hours to wait, so let us have breakfast",
        "I would like coffee and bread.",
    )

    def open(self) -> Translator:
        """Return a new translator."""
        opened: Translator = Registry().load_annotator(
            "translator", self.translator, self.model, **self.options
        )
        return opened

    def test_trn_01_every_token_is_translated_once(self) -> None:
        """Each lies in one translation, which has the times of its first and its last token."""
        found = self._run()
        tokens = [token for tokens in self._tokens() for token in tokens]
        for token in tokens:
            count = sum(text.start <= token.start and token.end <= text.end for text in found)
            assert count == 1, f"{token.text!r} at {token.start} s is in {count} translations"
        for text in found:
            assert text.start in {token.start for token in tokens}, f"no token begins with {text}"
            assert text.end in {token.end for token in tokens}, f"no token ends with {text}"
        assert found == sorted(found, key=lambda text: text.start), "translations change places"

    def test_trn_02_the_cut_of_the_tokens_changes_nothing(self) -> None:
        """Tokens come one by one or an utterance at once, and the translations are the same."""
        translator = self.open()
        found: list[TranslatedText] = []
        for tokens in self._tokens():
            translator.insert_tokens(tokens)
            found += translator.process_iter(is_last=True)
        found += translator.finish()

        assert self._run() == found

    def test_trn_03_nothing_comes_without_tokens(self) -> None:
        """A call without new tokens, and a second `finish`, return nothing and run no model."""
        translator = self.open()
        empty = [*translator.process_iter(), *translator.process_iter(is_last=True)]
        self._feed(translator)
        before = translator.stats
        empty += [*translator.finish(), *translator.process_iter(is_last=True)]

        assert not empty, f"{empty[0]} came without tokens"
        assert before == translator.stats, "the model ran without tokens"

    def test_trn_04_inserting_runs_no_model(self) -> None:
        """`insert_tokens` only keeps what it is given."""
        translator = self.open()
        before = translator.stats
        translator.insert_tokens(self._tokens()[0])

        assert before == translator.stats

    def test_trn_05_a_translation_is_text_in_its_language(self) -> None:
        """It is not blank, has no U+FFFD, and names the language that was asked for."""
        asked = self.options.get("target_language")
        for text in self._run():
            assert text.text.strip(), f"{text} is blank"
            assert "\N{REPLACEMENT CHARACTER}" not in text.text, f"{text} has broken characters"
            assert text.language, f"{text} names no language"
            assert asked in {None, text.language}, f"{text} is not in {asked}"

    def test_trn_06_a_reset_gives_a_new_translator(self) -> None:
        """Nothing of the tokens before it is translated, or changes a translation."""
        translator = self.open()
        translator.insert_tokens(self._tokens()[1][:-1])
        list(translator.process_iter())
        translator.reset()

        assert self._run() == self._feed(translator)

    def test_trn_07_streams_share_nothing(self) -> None:
        """Two that run at the same time have the translations of single ones."""
        first, second = self.open(), self.open()
        found: list[TranslatedText] = []
        for tokens in self._tokens():
            for token in tokens:
                second.insert_tokens((token, attrs.evolve(token, text=" one")))
                list(second.process_iter())
                first.insert_tokens((token,))
                found += first.process_iter()
            found += first.process_iter(is_last=True)
        found += first.finish()

        assert self._run() == found

    def test_trn_08_a_session_commits_the_same_words(self) -> None:
        """A session reports translations, no failure, and the commits that it has without."""
        alone, events = _session({}), _session({"translator": self.open()})
        failures = [event.error for event in events if isinstance(event, Failure)]

        assert not failures, failures[0]
        expected, committed = (
            [event for event in each if isinstance(event, Commit)] for each in (alone, events)
        )
        assert expected == committed
        assert any(isinstance(event, Translation) for event in events), "nothing was translated"

    def test_trn_09_work_does_not_grow(self) -> None:
        """An utterance costs what it cost many utterances before."""
        translator, spent = self.open(), list[list[int | None]]()
        for minute in range(20):
            before = attrs.astuple(translator.stats)
            self._feed(translator, 1000.0 * minute)
            pairs = zip(before, attrs.astuple(translator.stats), strict=True)
            spent.append([None if b is None else b - (a or 0) for a, b in pairs])

        assert spent[2] == spent[-1]

    def test_trn_10_a_translator_is_closed_twice(self) -> None:
        """`close` may be called again, and runs no model, although tokens wait for it."""
        translator = self.open()
        translator.insert_tokens(self._tokens()[0][:1])  # of a clause that has not ended
        list(translator.process_iter())
        before = translator.stats
        translator.close()
        translator.close()

        assert before == translator.stats, "closing ran the model"

    def _tokens(self, later: float = 0.0) -> list[tuple[ASRToken, ...]]:
        """Return the tokens of each utterance, *later* seconds after its place."""
        return [
            tuple(
                ASRToken(start := later + 100.0 * number + 0.4 * i, start + 0.3, f" {word}")
                for i, word in enumerate(text.split())
            )
            for number, text in enumerate(self.utterances)
        ]

    def _run(self) -> list[TranslatedText]:
        return self._feed(self.open())

    def _feed(self, translator: Translator, later: float = 0.0) -> list[TranslatedText]:
        found: list[TranslatedText] = []
        for tokens in self._tokens(later):
            for token in tokens:
                translator.insert_tokens((token,))
                found += translator.process_iter()
            found += translator.process_iter(is_last=True)
        return [*found, *translator.finish()]


def _session(annotators: dict[str, Any]) -> list[Event]:
    with ScriptedBackend() as backend:
        session = Session(backend.create_processor(), **annotators)
        events = [event for chunk in partition(_SPEECH, 0.5) for event in session.feed(chunk)]
        return events + session.finish()
