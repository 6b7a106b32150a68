from __future__ import annotations

import attrs
import pytest

from wlk_bench.events import Commit, End, EventLog, Header, TimedText
from wlk_bench.reference import Reference
from wlk_bench.scoring import score
from wlk_bench.selftest import small_log
from wlk_bench.summary import summarise


def stream(reference, *committed, language=None):
    """Return five seconds in which words were committed at their ends."""
    events = [
        Commit(audio_time=end, wall=end, tokens=(TimedText(start, end, text),))
        for start, end, text in committed
    ]
    reference = Reference(text=reference)
    header = Header(audio="x", audio_seconds=5.0, language=language, reference=reference)
    return EventLog(header=header, events=(*events, End(audio_time=5.0, wall=5.0)))


def test_silence_without_words_has_no_error_rate():
    """Without reference words the rate is undefined, and nothing fails."""
    summary = summarise([score(stream(""), normaliser_name="basic")])

    assert summary["wer"]["rate"] is None
    assert summary["wer"]["errors"] == 0
    assert summary["lagging"]["long_yaal"] == {"unaware": None, "aware": None}


def test_words_invented_in_silence_count_in_the_corpus():
    """A sample without words adds its insertions to the others."""
    scores = [
        score(stream("", (1.0, 2.0, " boo")), normaliser_name="basic"),
        score(stream("one two", (0.0, 1.0, " one"), (1.0, 2.0, " two")), normaliser_name="basic"),
    ]

    assert summarise(scores)["wer"]["rate"] == 0.5


def test_without_word_times_there_is_no_emission_latency():
    """Figures that cannot be measured are None, and the others are present."""
    summary = summarise([score(stream("one", (0.0, 1.0, " one")), normaliser_name="basic")])

    assert summary["latency"]["emission"]["unaware"] is None
    assert summary["latency"]["coverage"] is None
    assert summary["word_times"] is None
    assert summary["flushes"] is None
    assert summary["lagging"]["laal"]["unaware"] == 1.0


def test_chinese_is_counted_in_characters():
    """The unit of lagging is a character."""
    log = stream("你好吗", (0.0, 1.0, "你好"), (1.0, 2.0, "吧"), language="zh")

    scored = score(log, normaliser_name="basic")

    assert scored.characters.rate == pytest.approx(1 / 3)
    assert scored.erasure.final == 3
    assert scored.laal.unaware == pytest.approx((1 + (1 - 5 / 3) + (2 - 10 / 3)) / 3)


def test_no_streams_have_no_figures():
    """An empty run has a summary without rates."""
    summary = summarise([])

    assert (0, None) == (summary["samples"], summary["wer"]["rate"])


def test_samples_of_a_run_are_pooled_by_counts():
    """Two equal streams have the rates of one, and twice its words."""
    single = summarise([score(small_log(), normaliser_name="basic")])

    double = summarise(2 * [score(small_log(), normaliser_name="basic")])

    assert single["wer"]["rate"] == double["wer"]["rate"]
    assert 2 * single["wer"]["reference_length"] == double["wer"]["reference_length"]
    assert single["lagging"] == double["lagging"]


def test_text_that_was_shown_and_never_committed_is_scored():
    """The hypothesis alone is no transcript."""
    log = small_log()
    events = [event for event in log.events if not isinstance(event, Commit)]

    scored = score(attrs.evolve(log, events=tuple(events)), normaliser_name="basic")

    assert scored.words.hypothesis_length == 0
    assert scored.long_yaal == ()
