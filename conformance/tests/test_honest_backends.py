"""Sound backends that are unusual comply, and messages lead to the fault of a faulty one."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

import attrs
from fakes.wlk_fakes import MATCHER
from faulty_backends.base import (
    FaultyBackend,
    FaultyCase,
    FaultyStream,
    broken_rules,
    outcomes,
)
from faulty_backends.engine import Matcher
from faulty_backends.resources import BreathingStream
from faulty_backends.sharing import KeepsLockBetweenCalls, TakesLocksInTwoOrders
import numpy as np
import pytest

from wlk_conformance import calls
from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.scripted.backend import ScriptedEngine, load
from wlk_conformance.scripted.native import NativeRecognizer, cut_step, decode_step
from wlk_conformance.suite import scenes, text
from wlk_core.plugins import Hypothesis, Word, WorkCounters

FRAME = 800  # samples
MOST = 30  # words of an utterance that wait for its end
CACHED_BYTES, CACHED = 3000, 24  # of each entry of a cache, and its entries at most


class HoldsUntilFlush(NativeRecognizer):
    """Shows every word in time, and commits them when an utterance ends or has MOST words."""

    held = ()

    @property
    def hypothesis(self):
        """The words so far, and the one that has begun."""
        return (*self.held, *super().hypothesis)

    def step(self, *, is_last):
        """Keep the words of a step, and return all at the end of the utterance."""
        step = super().step(is_last=is_last)
        if step is None:
            return None
        words = (*self.held, *step.committed)
        is_due = self._is_padded or len(words) >= MOST
        self.held = () if is_due else words
        return attrs.evolve(step, committed=words if is_due else ())

    def start_utterance(self, committed_text):
        """Begin without words."""
        super().start_utterance(committed_text)
        self.held = ()


class Guesses(NativeRecognizer):
    """Shows a guess of the word that comes next, which is nearly always wrong."""

    @property
    def hypothesis(self):
        """The word that has begun, and a guess."""
        begun = super().hypothesis
        end = begun[-1].end if begun else self._buffer.start / 16_000
        guess = Word(end, end, (" zero", " nine", " two")[self._state.steps % 3], 0.1)
        return (*begun, guess) if self._state.steps else ()


def opened_with(recognizer):
    """Return a class of backends whose streams have this *recognizer*."""

    def open_stream(engine, config, calls):
        decode = calls.wrap(partial(decode_step, vocabulary=engine.vocabulary), cut=cut_step)
        return partial(recognizer, decode, language=config.language)

    class Backend(ScriptedBackend):
        def __init__(self):
            super().__init__()
            self._open_stream = open_stream

    return Backend


class Caching(FaultyStream):
    """A sound stream, whose backend keeps its last results in a cache with a bound."""

    def changed(self, emission, call):
        """Keep a result of each flush."""
        cache = self.backend.marks.setdefault("cache", OrderedDict())
        number = self.backend.marks["number"] = self.backend.marks.get("number", 0) + 1
        if call != "process_iter":
            cache[number] = bytes(CACHED_BYTES)
            while len(cache) > CACHED:
                cache.popitem(last=False)
        return emission


class LongTicks(FaultyBackend):
    """The scripted backend with a default tick of eight seconds."""

    def taken(self, arguments):
        """Add the tick."""
        return {"tick_seconds": 8.0} | arguments


NATIVE = {"policies": ("native",), "options": ()}
HONEST = {
    "has a window that breathes": (partial(FaultyBackend, BreathingStream), {}),
    "commits only at flushes": (opened_with(HoldsUntilFlush), NATIVE),
    "guesses the next word": (opened_with(Guesses), NATIVE),
    "fills a cache with a bound": (partial(FaultyBackend, Caching), {}),
    "has ticks of eight seconds": (
        LongTicks,
        {"policies": ("local-agreement",), "options": (), "max_delay": 17.0},
    ),
}


def honest(name):
    """Return the sound backend *name*, for examination."""
    create, spec = HONEST[name]

    def make(model=None):
        load(SCRIPTED_SPEC, model).close()  # refuses a model that does not exist
        return create()

    case = FaultyCase(name="sound", rule="", detector="tests", sentence="", make=make, spec=spec)
    return case.under_test()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("commits only at flushes", "RES-03"),
        ("guesses the next word", "HYP-02"),
        ("fills a cache with a bound", "RES-01"),
        ("has a window that breathes", "RES-01"),
        ("has ticks of eight seconds", "HYP-02"),
        ("has ticks of eight seconds", "ISO-06"),
        ("has ticks of eight seconds", "ERR-03"),
    ],
)
def test_an_unusual_backend_keeps_the_rule_that_it_seems_to_break(name, rule):
    """A hypothesis counts as shown, may be wrong, a cache may fill, a step may be rare."""
    if name == "fills a cache with a bound":
        statuses = {each.test: each.status for each in outcomes(honest(name), rule=rule)}

        assert statuses["test_calls_leave_no_memory"] == "pass"
        assert statuses["test_streams_leave_no_memory"] == "pass"
    else:
        assert {each.status for each in outcomes(honest(name), rule=rule)} == {"pass"}


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_unusual_backend_complies(name, monkeypatch):
    """No rule is broken, in sessions either."""
    if name != next(iter(HONEST)):  # really waited, several times; one backend shows that it may be
        monkeypatch.setattr(text, "SLOW", 0.01)
    under_test = honest(name)
    under_test.sessions = 48
    broken = broken_rules(under_test)

    assert {rule: result.detail for rule, result in broken.items()} == {}


class Thai(Matcher):
    """A recogniser of one word, in a script without spaces: every sound is the word."""

    def __call__(self, audio, **arguments):
        """Return the word for each sound of *audio*."""
        frames = audio[: len(audio) // FRAME * FRAME].reshape(-1, FRAME)
        is_loud = np.sqrt(np.mean(np.square(frames), axis=1)) > 0.02
        edges = np.flatnonzero(np.diff(is_loud, prepend=False, append=False)) * FRAME / 16_000
        return Hypothesis(
            words=tuple(Word(*times, "คำ") for times in edges.reshape(-1, 2).tolist())
        )


def test_a_cut_answer_may_lose_its_words_in_a_script_without_spaces():
    """LIFE-08 counts the words of such a script, and does not take them for a single one."""
    spec = {**MATCHER, "digit_models": (), "languages": ("th",)}
    case = FaultyCase(
        name="thai", rule="", detector="tests", sentence="", make=Thai.load, spec=spec
    )
    found = {each.status: each.detail for each in outcomes(case.under_test(), rule="LIFE-08")}

    assert "fail" not in found, found
    assert "pass" in found


class Remembers(Matcher):
    """A recogniser that answers known audio from a cache with a bound, without any work."""

    def __init__(self):
        self.answers = OrderedDict()

    def __call__(self, audio, *, prompt, language):
        """Look it up."""
        key = audio.tobytes(), prompt, language
        if (known := self.answers.get(key)) is not None:
            return attrs.evolve(known, work=WorkCounters())
        answer = super().__call__(audio, prompt=prompt, language=language)
        self.answers[key] = attrs.evolve(answer, work=WorkCounters(encoder_frames=len(audio)))
        while len(self.answers) > CACHED:
            self.answers.popitem(last=False)
        return self.answers[key]


@pytest.mark.parametrize("rule", ["COM-04", "LIFE-06", "RES-02", "ISO-06"])
def test_known_audio_may_be_answered_without_work(rule):
    """Work is compared with that of another stream of the same audio, which is known as well."""
    case = FaultyCase(
        name="remembers", rule="", detector="tests", sentence="", make=Remembers.load, spec=MATCHER
    )
    judged = outcomes(case.under_test(), rule=rule)
    failed = {each.test: each.detail for each in judged if each.status == "fail"}

    assert failed == {}


class Dithered(Matcher):
    """A recogniser that adds noise to its audio, another one each time."""

    def __init__(self):
        self.random = np.random.default_rng(5)

    def scaled(self, audio):
        """Add noise."""
        noise = self.random.standard_normal(len(audio)) * 0.001
        return audio + noise.astype(np.float32)


def test_an_engine_that_varies_is_called_that():
    """An engine that answers the same audio differently fails COM-04, and COM-05 is not blamed."""
    case = FaultyCase(
        name="dithered", rule="", detector="tests", sentence="", make=Dithered.load, spec=MATCHER
    )
    judged = reversed([*outcomes(case.under_test(), rule="COM-05")])  # the first test comes last
    found = {(each.rule, each.status): each for each in judged}

    assert found.keys() == {("COM-04", "fail"), ("COM-05", "n/a")}, found
    blamed = found["COM-04", "fail"]
    assert "your engine answers the same audio differently: two runs of " in blamed.detail
    assert blamed.is_first
    assert "(COM-04)" in found["COM-05", "n/a"].detail


def test_a_load_that_returns_the_open_backend_is_called_that():
    """PKG-04 does not blame swallowed options for a backend that is loaded once."""
    backend = ScriptedBackend()
    under_test = BackendUnderTest(SCRIPTED_SPEC, lambda model, **options: backend)
    found = {
        each.rule: each for each in outcomes(under_test, rule="PKG-04") if each.status == "fail"
    }

    assert found.keys() == {"ISO-06"}
    assert "load() returned a backend that is already open" in found["ISO-06"].detail


class Certain(FaultyStream):
    """Reports a probability of two."""

    def changed(self, emission, call):
        """Change the probabilities."""
        words = tuple(attrs.evolve(token, probability=2.0) for token in emission.committed)
        return attrs.evolve(emission, committed=words)


def test_a_probability_above_one_is_explained_by_its_range():
    """The sentence of the failure is that on tokens, not that on the version of the API."""
    case = FaultyCase(
        name="certain", rule="", detector="tests", sentence="",
        make=lambda model: FaultyBackend(Certain),
    )  # fmt: skip
    (failed,) = (
        each for each in outcomes(case.under_test(), rule="PKG-01") if each.status == "fail"
    )

    assert failed.explanation.startswith("PKG-01  Tokens have a probability ")
    assert "expected 0 to 1" in failed.detail


@pytest.mark.parametrize(
    ("faulty", "step"),
    [
        (TakesLocksInTwoOrders, "waits in made > locked > lock"),
        (KeepsLockBetweenCalls, "has ended"),
    ],
)
def test_a_deadlock_is_reported_with_the_functions_that_wait(faulty, step, monkeypatch):
    """ISO-02 says where a stream waits, and whether it waits for a step or for what it left."""
    for module in (calls, scenes):
        monkeypatch.setattr(module, "STUCK", 0.5)
    case = FaultyCase(
        name="locked", rule="", detector="tests", sentence="",
        make=lambda model: FaultyBackend(faulty),
    )  # fmt: skip
    found = outcomes(case.under_test(), rule="ISO-02")
    (failed,) = (each for each in found if each.status == "fail")

    assert "a deadlock; it waits in reset > locked > lock (sharing.py:" in failed.detail
    assert f"and the step {step}" in failed.detail


def test_wrong_words_are_not_blamed_on_the_hypothesis():
    """HYP-02 is not judged if what is committed is wrong as well."""
    wrong = Hypothesis(words=(Word(0.1, 0.4, " eight", 1.0),))

    class Mistaken(ScriptedEngine):
        def transcribe(self, audio, **options):
            return wrong

    class OfAnotherStream(ScriptedBackend):
        def __init__(self):
            super().__init__()
            self._engine = Mistaken()

    case = FaultyCase(
        name="other", rule="", detector="tests", sentence="", make=lambda model: OfAnotherStream()
    )
    outcome, *others = outcomes(case.under_test(), rule="HYP-02")

    assert outcome.status == "n/a"
    assert "the committed words are not those of the audio" in outcome.detail
    assert {other.status for other in others} == {"pass"}
