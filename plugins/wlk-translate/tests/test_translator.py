"""Clauses are translated once, in order and with context, and nothing waits for them."""

from __future__ import annotations

import logging
import threading

import attrs
import pytest
from test_clauses import tokens_of

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode
from wlk_conformance.translators import TranslatorConformance
from wlk_core.plugins import BackendError
from wlk_live.session import Commit, End, Endpoint, Session, Translation
from wlk_translate.engine import translator as module
from wlk_translate.engine.translator import ClauseTranslator, Pair


class UpperCase:
    """Translate to capitals, once `is_free` is set; raise for text in `fails_on`."""

    def __init__(self, *, spans_sentences=False, fails_on=None):
        self.spans_sentences = spans_sentences
        self.fails_on = fails_on
        self.asked = []
        self.is_free = threading.Event()
        self.is_free.set()

    def translate(self, text, context):
        """Return the text in capitals."""
        assert self.is_free.wait(5.0)
        self.asked.append((text, list(context)))
        if text == self.fails_on:
            raise RuntimeError("out of memory")
        return text.upper()


@pytest.fixture
def engine():
    """Return an engine that translates to capitals."""
    return UpperCase()


def open_translator(engine, **options):
    """Return a translator to capitals."""
    return ClauseTranslator(engine, **{"target_language": "up", **options})


def texts_of(translated):
    """Return the text of each translation."""
    return [text.text for text in translated]


class TestRules(TranslatorConformance):
    """Run the contract of translators."""

    def open(self):
        """Return a translator with a scripted engine."""
        return open_translator(UpperCase())


def test_nothing_but_the_end_waits_for_the_engine(engine):
    """A translation is returned by the first call after it is complete."""
    engine.is_free.clear()
    translator = open_translator(engine)
    translator.insert_tokens(tuple(tokens_of("It is late. Come home. Good")))

    assert translator.process_iter() == []
    assert translator.process_iter(is_last=True) == []
    engine.is_free.set()
    assert texts_of(translator.finish()) == ["IT IS LATE.", "COME HOME.", "GOOD"]


@pytest.mark.parametrize(
    ("spans", "context"),
    [
        (False, ["The one that we saw there,", "which was older than the rest,"]),
        (True, ["Good day.", "The one that we saw there,", "which was older than the rest,"][-2:]),
    ],
)
def test_two_clauses_before_are_context(spans, context):
    """
    The context includes their translations, as shown.

    For a model of single sentences, it has only clauses of the same sentence.
    """
    engine = UpperCase(spans_sentences=spans)
    translator = open_translator(engine)
    said = "Good day. The one that we saw there, which was older than the rest, is here. Fine."
    translator.insert_tokens(tuple(tokens_of(said)))
    translator.finish()
    asked = dict(engine.asked)

    pairs = [Pair(text, text.upper()) for text in (*context, "is here.")]

    assert asked["is here."] == pairs[:2]
    assert asked["Fine."] == (pairs[1:] if spans else [])
    assert asked["Good day."] == []


@pytest.mark.parametrize("languages", [{"source_language": "en"}, {"target_language": "fr"}])
def test_other_languages_and_bare_punctuation_are_left_out(languages, engine):
    """Only clauses that can be in the source language are translated, never from the target."""
    translator = open_translator(engine, **languages)
    english, french, dots = tokens_of("hello bonjour ...")
    said = [
        attrs.evolve(english, detected_language="en"),
        attrs.evolve(french, detected_language="fr"),
        dots,
    ]
    translator.insert_tokens(tuple(said))

    assert texts_of(translator.finish()) == ["HELLO"]


def test_a_failure_is_raised_by_the_next_call_after_what_was_done():
    """The failure is the exception of the engine."""
    translator = open_translator(UpperCase(fails_on="Two."))
    translator.insert_tokens(tuple(tokens_of("One. Two. Three.")))
    with pytest.raises(RuntimeError, match="out of memory"):
        translator.finish()
    translator.close()


def test_a_translator_that_never_keeps_up_is_refused(engine, monkeypatch):
    """The number of waiting clauses is bounded."""
    monkeypatch.setattr(module, "_MAX_WAITING", 3)
    engine.is_free.clear()
    translator = open_translator(engine)
    translator.insert_tokens(tuple(tokens_of("One. Two. Three. Four.")))
    with pytest.raises(BackendError, match=r"4 clauses wait .* slower than the speech"):
        translator.process_iter()
    translator.close()
    engine.is_free.set()


def test_late_translations_are_one_line(engine, monkeypatch, caplog):
    """The warning says how late they are."""
    clock = iter(range(0, 1000, 12))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    translator = open_translator(engine)
    translator.insert_tokens(tuple(tokens_of("One. Two.")))
    with caplog.at_level(logging.WARNING):
        translator.finish()

    assert len(caplog.records) == 1
    assert "s late: the model is slower than speech" in caplog.text


def test_the_last_words_do_not_wait_for_their_translation(engine):
    """A step returns them before the step that waits for the translation."""
    engine.is_free.clear()
    speech = encode([CodedToken(1, 6, 4)], cells=30)
    with ScriptedBackend() as backend:
        session = Session(backend.create_processor(), translator=open_translator(engine))
        session.receive(speech)
        session.end_audio()
        steps = []
        while not any(isinstance(event, Endpoint) for event in steps):
            steps += session.step()
        assert any(isinstance(event, Commit) for event in steps)
        assert not any(isinstance(event, End) for event in steps)
        engine.is_free.set()
        while session.has_work:
            steps += session.step()

    assert [event.text.text for event in steps if isinstance(event, Translation)] == ["ZERO"]
    assert isinstance(steps[-1], End)
