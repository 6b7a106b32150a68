"""Text filters in a session: what they change, what waits for them, and what stays as spoken."""

from __future__ import annotations

from itertools import pairwise
from queue import SimpleQueue
import threading

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest
from session_events import kinds, stepped, text_of, tokens_of

from wlk_conformance.testing import partition
from wlk_conformance.testing.annotators import DigitFilter
from wlk_core.annotators import Replacement
from wlk_core.errors import BackendError
from wlk_core.processor import WorkCounters
from wlk_core.tokens import ASRToken, TranslatedText
from wlk_live.session import (
    Commit,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    Marked,
    Session,
    Translation,
)
from wlk_live.session.text_filters import TextFilters
from wlk_live.vad import SilenceGate

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


class Filter:
    """A text filter whose answer is given; by default it settles everything and changes nothing."""

    stats = WorkCounters()

    def __init__(self, answer=lambda tokens, _is_last: ([], len(tokens))):
        self.answer = answer
        self.asked = []  # the texts of all calls

    def replace(self, tokens, *, is_last):
        """Return the answer."""
        self.asked.append(("".join(token.text for token in tokens), is_last))
        return self.answer(tokens, is_last)


def waits(tokens, is_last):
    """Settle nothing before the end of a clause."""
    return ([], len(tokens) if is_last else 0)


def spoken(tokens):
    """Return the tokens as they were before any filter."""
    return [each for token in tokens for each in token.spoken or (token,)]


def joined(tokens):
    """Return the text of tokens."""
    return "".join(token.text for token in tokens)


def words(text, **fields):
    """Return a token for each word of a text, 0.5 s each."""
    return tuple(
        ASRToken(index / 2, index / 2 + 0.4, f" {word}", **fields)
        for index, word in enumerate(text.split())
    )


def filtered(text_filter, *commits):
    """Return what a filter makes of commits, and the errors that were reported."""
    filters, errors = TextFilters([text_filter]), []
    filters.report_failure = errors.append
    done = [token for commit in commits for token in filters.push(commit, is_last=False)]
    return [*done, *filters.push((), is_last=True)], errors


def test_a_replaced_word_keeps_the_times_and_the_words_as_spoken(run, talk):
    """It lasts from the first one's start to the last one's end; nothing spoken is lost."""
    plain = tokens_of(run(talk))
    tokens = tokens_of(run(talk, text_filters=[DigitFilter()]))

    assert [token.text for token in tokens] == ["01234567890123456789", " 01234567890123456789"]
    assert spoken(tokens) == plain
    for token in tokens:
        assert (token.start, token.end) == (token.spoken[0].start, token.spoken[-1].end)


def test_a_filter_that_changes_nothing_leaves_every_event_as_it_is(run, talk):
    """Words that are settled at once are committed as without a filter, in the same events."""
    plain = run(talk)[:-1]  # the End has counters of time

    assert run(talk, text_filters=[])[:-1] == plain
    assert run(talk, text_filters=[Filter()])[:-1] == plain
    assert not any("spoken" in token for event in kinds(plain, Commit)
                   for token in event.to_dict()["tokens"])  # fmt: skip


def test_the_words_as_spoken_are_in_the_record_of_a_commit(run, speech):
    """Each has its own times; another clock moves them too."""
    (commit,) = kinds(run(speech, text_filters=[DigitFilter()]), Commit)
    (token,) = commit.shifted(10.0).to_dict()["tokens"]

    assert [each["text"].strip() for each in token["spoken"]] == DIGITS * 2
    assert token["spoken"][0]["start"] == token["start"] == commit.tokens[0].start + 10.0
    assert set(token["spoken"][0]) == {"start", "end", "text", "probability"}


@pytest.mark.parametrize("chunk_seconds", [0.1, 0.5, 60.0])
def test_waiting_words_stay_on_the_screen(open_coded, detector, talk, chunk_seconds):
    """Committed and hypothesised words together are those of a session without a filter."""

    def screens(**filters):
        session = Session(open_coded(), gate=SilenceGate(detector), **filters)
        found, committed, hypothesis = [], [], ()
        for chunk in partition(talk, chunk_seconds):
            for event in session.feed(chunk):
                committed += event.tokens if isinstance(event, Commit) else ()
                if isinstance(event, HypothesisChange):
                    hypothesis = event.transcript.tokens
            found.append(joined(spoken([*committed, *hypothesis])))
        return found

    assert screens(text_filters=[DigitFilter()]) == screens()
    assert screens()[-1]


def test_an_utterance_ends_with_all_of_its_words(run, talk):
    """A pause, a commit and the end empty the filter before the endpoint is reported."""
    events = run(talk, text_filters=[Filter(waits)])
    order = [type(event) for event in events if isinstance(event, Commit | Endpoint)]

    assert order == [Commit, Endpoint, Commit, Endpoint]
    assert text_of(events) == text_of(run(talk))


def test_a_commit_of_the_caller_empties_the_filter(open_session, speech):
    """The words before it are committed with it, those after it later."""
    session = open_session(gated=False, text_filters=[Filter(waits)])
    session.receive(speech[: 5 * 16_000])
    session.commit()
    before = stepped(session)
    session.receive(speech[5 * 16_000 :])
    events = before + session.finish()

    assert isinstance(before[-1], Endpoint)
    assert tokens_of(before)
    assert text_of(events) == " ".join(DIGITS * 2)


def test_no_later_token_starts_before_the_stable_time(open_session, speech):
    """A mark counts waiting words as words that come later, and shows them as hypothesis."""
    session = open_session(gated=False, text_filters=[DigitFilter()])
    session.receive(speech[: 5 * 16_000])
    session.mark("half")
    (mark,) = kinds(stepped(session), Marked)
    plain = open_session(gated=False)
    plain.receive(speech[: 5 * 16_000])
    plain.mark("half")
    events = stepped(plain)

    assert mark.transcript.start >= mark.stable_up_to
    assert mark.stable_up_to < kinds(events, Marked)[0].stable_up_to
    assert joined(mark.transcript.tokens).strip().startswith(text_of(events))


def test_starts_never_go_back(run, talk):
    """Joined words are in the order of their starts."""
    tokens = tokens_of(run(talk, text_filters=[DigitFilter(), Filter(waits)]))

    assert all(one.start <= other.start for one, other in pairwise(tokens))


class Echo(Filter):
    """A translator that returns what it gets, and a turn detector that keeps what it is asked."""

    def __init__(self):
        super().__init__()
        self.tokens, self.returned = [], 0

    def insert_tokens(self, tokens):
        """Append tokens."""
        self.tokens += tokens

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Return the new tokens."""
        new, self.returned = self.tokens[self.returned :], len(self.tokens)
        return [TranslatedText(token.text, token.start, token.end) for token in new]

    def insert_audio_chunk(self, audio):
        """Take audio."""

    def end_of_turn(self, text):
        """Keep the text."""
        self.asked.append(text)
        return 0.0

    def reset(self):
        """Forget nothing."""

    finish = process_iter


def test_translators_and_turn_detectors_get_words_as_they_are_spoken(run, talk):
    """They are models of language, and would know no figures; nothing reaches them twice."""
    heard, plain = Echo(), Echo()
    events = run(talk, text_filters=[DigitFilter()], translator=heard, turn_detector=heard)
    run(talk, translator=plain, turn_detector=plain)

    assert (heard.tokens, heard.asked) == (plain.tokens, plain.asked)
    assert plain.asked
    assert joined(event.text for event in kinds(events, Translation)) == joined(plain.tokens)


def test_filters_run_in_their_order(run, speech):
    """Each gets the words of the one before it; the words as spoken stay those of the model."""

    def dash(tokens, _is_last):
        spans = [Replacement(i, i + 1, f" <{each.text.strip()}>") for i, each in enumerate(tokens)]
        return spans, len(tokens)

    plain = tokens_of(run(speech))
    (late,) = tokens_of(run(speech, text_filters=[DigitFilter(), Filter(dash)]))
    early = tokens_of(run(speech, text_filters=[Filter(dash), DigitFilter()]))

    assert late.text == "<01234567890123456789>"
    assert joined(early) == " ".join(f"<{digit}>" for digit in DIGITS * 2)
    assert spoken([late]) == spoken(early) == plain


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"speaker": 0}, {"speaker": 1}, id="speaker"),
        pytest.param({"detected_language": "en"}, {"detected_language": "de"}, id="language"),
    ],
)
def test_a_number_is_not_joined_over_a_change(first, second):
    """Another speaker or language begins another clause."""
    tokens, errors = filtered(DigitFilter(), words("one two", **first), words("three", **second))

    assert not errors
    assert [token.text for token in tokens] == [" 12", " 3"]
    assert [token.speaker for token in tokens] == [first.get("speaker"), second.get("speaker")]


def test_the_first_word_of_a_stream_is_not_the_rest_of_a_word():
    """A filter gets it with a space, as all words, and it is written without one."""
    first, *rest = words("one two and three")
    tokens = (attrs.evolve(first, text="one"), *rest)
    asked = Filter(waits)

    assert filtered(asked, tokens)[0] == [*tokens]
    assert [text for text, _ in asked.asked][:2] == [" one", " one two"]
    assert [each.text for each in filtered(DigitFilter(), tokens)[0]] == ["12", " and", " 3"]


def test_a_sentence_ends_the_clause_and_a_comma_does_not():
    """A filter is told the end once the next sentence has begun, so "3." may still become 3.5."""
    asked = Filter(waits)
    tokens, _ = filtered(asked, words("Yes, two. The end"))

    assert [text for text, is_last in asked.asked if is_last] == [" Yes, two.", " The end"]
    assert joined(tokens) == " Yes, two. The end"


def test_speech_without_sentences_does_not_wait_for_ever():
    """After 64 waiting tokens the clause ends."""
    filters = TextFilters([Filter(waits)])

    assert len(filters.push(words("so " * 100), is_last=False)) == 64
    assert len(filters.waiting) == 36


def test_a_filter_is_not_called_without_words(run, talk):
    """Every call has at least one token, and one settled word at a time costs one call."""
    text_filter = Filter()
    tokens = tokens_of(run(talk, text_filters=[text_filter]))

    assert [text for text, _ in text_filter.asked] == [f" {token.text.strip()}" for token in tokens]


def test_the_least_probable_word_decides_how_probable_the_joined_one_is():
    """Without the probability of one there is none."""
    one, two = words("one two")
    sure, unsure = attrs.evolve(one, probability=0.9), attrs.evolve(two, probability=0.2)

    assert filtered(DigitFilter(), (sure, unsure))[0][0].probability == 0.2
    assert filtered(DigitFilter(), (sure, two))[0][0].probability is None


class Panic(BaseException):
    """What a Rust library raises."""


def panic(_tokens, _is_last):
    """Raise what is no Exception."""
    raise Panic


def answering(replacements, count=None):
    """Return an answer with these replacements once there are three words."""

    def answer(tokens, is_last):
        if len(tokens) < 3 and not is_last:
            return [], 0
        return replacements, len(tokens) if count is None else count

    return answer


FAULTS = {
    "raises": panic,
    "returns None": lambda _tokens, _is_last: None,
    "returns no list": answering(None),
    "returns text": answering([" 3"]),
    "settles more than it got": answering([], 99),
    "settles less than nothing": answering([], -1),
    "settles a part of a word": answering([], 1.5),
    "settles true": answering([], True),
    "leaves words at the end": lambda _tokens, _is_last: ([], 0),
    "replaces no word": answering([Replacement(1, 1, " x")]),
    "replaces backwards": answering([Replacement(2, 1, " x")]),
    "replaces what is not settled": answering([Replacement(0, 3, " x")], 2),
    "replaces by name": answering([Replacement("a", "b", " x")]),
    "overlaps": answering([Replacement(0, 2, " x"), Replacement(1, 3, " y")]),
    "is out of order": answering([Replacement(2, 3, " x"), Replacement(0, 1, " y")]),
    "writes nothing": answering([Replacement(0, 1, "")]),
    "writes a space": answering([Replacement(0, 1, " ")]),
    "writes bytes": answering([Replacement(0, 1, b" x")]),
    "writes controls": answering([Replacement(0, 1, " \x1b[2J")]),
    "writes half a character": answering([Replacement(0, 1, " \ud800")]),
    "writes lines": answering([Replacement(0, 1, " a\nb")]),
}


@pytest.mark.parametrize("answer", FAULTS.values(), ids=FAULTS)
def test_a_faulty_filter_is_switched_off_and_loses_no_word(run, talk, answer):
    """One event names it; its waiting words come out as spoken, and other filters go on."""
    plain = run(talk)
    events = run(talk, text_filters=[Filter(answer), DigitFilter()])
    (failure,) = kinds(events, Failure)

    assert "the text filter Filter failed: " in str(failure.error)
    assert "switched off, and the transcript continues" in str(failure.error)
    assert (failure.annotator, failure.is_final) == ("text filter", False)
    assert spoken(tokens_of(events)) == tokens_of(plain)
    assert " 01234567890123456789" in [token.text for token in tokens_of(events)]
    assert isinstance(events[-1], End)


def test_what_was_settled_before_a_failure_stays(run, talk):
    """Words of the first utterance keep their figures; those that waited come out as spoken."""
    calls = DigitFilter()
    count = 0

    def fails_later(tokens, is_last):
        nonlocal count
        if (count := count + 1) > 30:
            raise RuntimeError("no more")
        return calls.replace(tokens, is_last=is_last)

    events = run(talk, text_filters=[Filter(fails_later)])

    assert text_of(events) == f"01234567890123456789 {' '.join(DIGITS * 2)}"
    assert spoken(tokens_of(events)) == tokens_of(run(talk))


def test_a_filter_that_hangs_is_switched_off_and_loses_no_word(run, talk, monkeypatch):
    """What it settled before stays; the session goes on while the call never returns."""
    digits, is_over, news = DigitFilter(), threading.Event(), SimpleQueue()

    def hangs_later(tokens, is_last):
        if tokens[0].start > 20.0:
            news.put(TimeoutError)
            is_over.wait()
        return digits.replace(tokens, is_last=is_last)

    def call(_time, work, tokens):
        def report():
            work()
            news.put(None)

        assert tokens >= 0
        threading.Thread(target=report, daemon=True).start()
        if (error := news.get()) is not None:
            raise error

    monkeypatch.setattr("wlk_live.session.call_time.CallTime.call", call)
    events = run(talk, text_filters=[Filter(hangs_later)])
    is_over.set()
    (failure,) = kinds(events, Failure)

    assert "the text filter Filter failed: TimeoutError: " in str(failure.error)
    assert text_of(events) == f"01234567890123456789 {' '.join(DIGITS * 2)}"
    assert spoken(tokens_of(events)) == tokens_of(run(talk))


def test_a_call_that_returns_late_changes_nothing(monkeypatch):
    """Its words came out as spoken; whatever it answers, they come once."""
    monkeypatch.setattr("wlk_live.session.call_time._SECONDS_PER_TOKEN", 0.01)
    is_over = threading.Event()

    def late(tokens, _is_last):
        is_over.wait()
        return [], len(tokens)

    filters = TextFilters([Filter(late)])
    filters._stages[0]._time._seconds = 0.0
    one, two = words("one two")
    done = filters.push((one,), is_last=False)
    is_over.set()

    assert done + filters.push((two,), is_last=True) == (one, two)


def test_a_filter_that_fails_at_the_end_of_a_sentence_holds_no_word_back():
    """The word that began the next sentence comes out as well."""
    tokens = words("one. Two three")
    filters = TextFilters([Filter(lambda _tokens, _is_last: ([], 0))])
    done = [each for token in tokens for each in filters.push((token,), is_last=False)]

    assert [*done, *filters.push((), is_last=True)] == [*tokens]
    assert filters.waiting == ()


def test_an_engine_that_fails_for_good_leaves_no_word_behind(open_session, speech):
    """The words that waited are committed before the final failure."""

    def ended(**filters):
        session = open_session(gated=False, fail_at=range(5, 50), **filters)
        session.receive(speech)
        return session.finish()

    events = ended(text_filters=[Filter(waits)])
    (final,) = [event for event in kinds(events, Failure) if event.is_final]

    assert text_of(events) == text_of(ended())
    assert text_of(events)
    assert events.index(kinds(events, Commit)[-1]) < events.index(final)


def test_a_session_that_its_owner_ends_leaves_no_word_behind(open_session, speech):
    """`fail` returns the waiting words before the failure and the End."""
    session = open_session(gated=False, text_filters=[Filter(waits)])
    session.feed(speech[: 5 * 16_000])
    commit, failure, end = session.fail(BackendError("the scheduler stops"))

    assert commit.tokens
    assert (type(commit), type(failure), type(end)) == (Commit, Failure, End)


VOCABULARY = st.sampled_from(["one", "two", "three.", "and", "Then", "nine,", "No!"])


@given(text=st.lists(VOCABULARY, max_size=20), cuts=st.lists(st.integers(0, 20), max_size=5))
def test_the_cut_into_commits_changes_no_word(text, cuts):
    """Any division of the tokens gives the tokens of one commit."""
    tokens = words(" ".join(text))
    places = sorted([0, *cuts, len(tokens)])
    commits = [tokens[start:stop] for start, stop in pairwise(places)]
    divided, errors = filtered(DigitFilter(), *commits)

    assert not errors
    assert divided == filtered(DigitFilter(), tokens)[0]
    assert spoken(divided) == list(tokens)


class Glossary(Filter):
    """Replaces phrases, the longest at the earliest place, and waits while one may go on."""

    def __init__(self, phrases):
        super().__init__(self.find)
        self.phrases = phrases

    def find(self, tokens, is_last):
        """Return the phrases that no later word can make longer."""
        texts, found, start = [token.text.strip() for token in tokens], [], 0
        while start < len(texts):
            rest = texts[start:]
            if not is_last and any(p[: len(rest)] == rest != p for p in self.phrases):
                return found, start
            fitting = [p for p in self.phrases if rest[: len(p)] == p]
            stop = start + max(map(len, fitting), default=0)
            if stop > start:
                found.append(Replacement(start, stop, f" <{'-'.join(rest[: stop - start])}>"))
            start = max(stop, start + 1)
        return found, start


TEXTS = st.lists(st.sampled_from(["one", "two", "and", "nine,"]), max_size=20)
FILTERS = st.one_of(
    st.builds(DigitFilter),
    st.builds(Glossary, st.lists(st.lists(st.sampled_from(["one", "two", "and"]), min_size=1))),
)


@given(text=TEXTS, text_filter=FILTERS)
def test_word_by_word_is_as_the_whole_clause(text, text_filter):
    """A consistent filter, shown more words each time, writes what it makes of all at once."""
    tokens = words(" ".join(text))
    whole, replacements = [], text_filter.replace(tokens, is_last=True)[0]
    for index, token in enumerate(tokens):
        starting = [each for each in replacements if each.start == index]
        if starting:
            whole.append(starting[0].text)
        elif not any(each.start < index < each.stop for each in replacements):
            whole.append(token.text)

    assert [token.text for token in filtered(text_filter, tokens)[0]] == whole
