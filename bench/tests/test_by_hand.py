"""Metrics against figures worked out by hand, beyond those of `wlk-bench selftest`."""

from __future__ import annotations

import attrs
import pytest

from wlk_bench.events import AudioIn, Commit, End, EventLog, Header, TimedText
from wlk_bench.metrics.error_rate import word_edits
from wlk_bench.metrics.lagging import laal, yaal
from wlk_bench.metrics.normalise import normaliser
from wlk_bench.metrics.segmentation import soft_segments
from wlk_bench.metrics.statistics import paired_difference, ratio_interval, slope
from wlk_bench.metrics.work import memory_slopes, work_windows
from wlk_bench.reference import Reference, ReferenceSegment
from wlk_bench.scoring import score
from wlk_bench.selftest import Case, call, small_log
from wlk_bench.summary import summarise


def cases():
    """Yield every case."""
    yield from _error_rates()
    yield from _intervals()
    yield from _timing()
    yield from _lagging()
    yield from _segmentation()
    yield from _stability()
    yield from _word_times()
    yield from _growth()


def _error_rates():
    errors = word_edits("a b c d", "a x c d e").counts
    yield Case("WER", "one word replaced and one added in four", 0.5, errors.rate)
    yield Case("WER", "none of four words recognised", 1.0, word_edits("a b c d", "").counts.rate)
    yield Case(
        "WER", "a reference without words has no rate", None, word_edits("", "a").counts.rate
    )
    short = word_edits("a", "b").counts
    long = word_edits("a b c d e f g h i", "a b c d e f g h i").counts
    yield Case("WER", "1 of 1 and 0 of 9 make 1 of 10", 0.1, (short + long).rate)
    basic, english = normaliser("basic"), normaliser("english")
    yield Case("normaliser basic", "punctuation and case", "mr smith s 20", basic("Mr. Smith's 20"))
    yield Case("normaliser english", "titles, clitics, numbers", "mister smith is 21",
               english("Mr. Smith's twenty-one"))  # fmt: skip
    yield Case("normaliser english", "it joins digits to one word", "42", english("four two"))
    blocks = word_edits("a b c d", "a x c d e", block=2).blocks
    yield Case("error blocks", "replaced in the first, added in the last", [[1, 2], [1, 2]],
               [list(block) for block in blocks])  # fmt: skip


def _intervals():
    same = ratio_interval([(1, 10)] * 20)
    yield Case("interval", "equal blocks have no spread, low", 0.1, same and same.low)
    yield Case("interval", "equal blocks have no spread, high", 0.1, same and same.high)
    coin = ratio_interval([(0, 1), (1, 1)] * 200)
    yield Case(
        "interval",
        "400 fair coins: 0.5 less 1.96 times the root of 0.25 / 400",
        0.451,
        coin and coin.low,
        0.006,
    )
    none = ratio_interval([(0, 50)] * 2)
    yield Case("interval", "no error in 100: (1 - p) ** 100 = 0.025", 0.03622, none and none.high,
               1e-5)  # fmt: skip
    yield Case("interval", "one block has none", None, ratio_interval([(1, 10)]))
    pair = paired_difference([(2, 10)] * 20, [(1, 10)] * 20)
    yield Case("paired", "one error less in every block", -0.1, pair and pair.difference)
    yield Case("paired", "and so in every resample", -0.1, pair and pair.interval.high)


def _timing():
    for key, expected in (("p50", 0.4), ("max", 0.6)):
        found = _summary("real_time", "tick_rtf", key)
        yield Case("RTF of a tick", f"0.2, 0.4, 0.6: {key}", expected, found)
    yield Case("keeps up", "each tick is done within its second", True,
               _summary("real_time", "keeps_up"))  # fmt: skip
    for kind, p90 in (("unaware", 1.37), ("aware", 1.95)):
        found = _summary("latency", "emission", kind, "p90")
        yield Case(f"emission, {kind}", "p90 of one and two", p90, found)
    for name, unaware in (("first_display", 0.5), ("first_commit", 1.5), ("finalisation", 0.5)):
        found = _summary("latency", name, "unaware", "p50")
        yield Case(f"{name.replace('_', ' ')}, unaware", "", unaware, found)
    found = _summary("latency", "first_display", "aware", "p50")
    yield Case("first display, aware", "", 0.7, found)


def _lagging():
    delays = [1.0, 2.0, 4.0]
    yield Case("LAAL", "(1 + 1 + 2) / 3", 4 / 3, laal(delays, source_seconds=3, reference_length=3))
    yield Case("LAAL", "six reference words: (1 + 1.5 + 3) / 3", 5.5 / 3,
               laal(delays, source_seconds=3, reference_length=6))  # fmt: skip
    yield Case("YAAL", "words at the end do not count: (1 + 1) / 2", 1.0,
               yaal(delays, source_seconds=3, reference_length=3))  # fmt: skip
    yield Case("LongYAAL", "they count while the recording lasts: (1 + 1 + 2) / 3", 4 / 3,
               yaal(delays, source_seconds=3, reference_length=3, recording_seconds=5))  # fmt: skip
    found = summarise([score(_two_segments(), normaliser_name="basic")])["lagging"]
    yield Case("LongYAAL", "segments of 1.0 and 1.0", 1.0, found["long_yaal"]["unaware"])


def _segmentation():
    segments = [["one", "two"], ["three", "four"]]
    hypothesis = ["one", "to", "three", "four"]
    yield Case("soft segments", "a word goes to the most similar one", [[0, 1], [2, 3]],
               soft_segments(segments, hypothesis))  # fmt: skip
    yield Case("soft segments", "and so does an inserted word", [[0, 1], [2, 3, 4]],
               soft_segments(segments, ["one", "two", "thr", "three", "four"]))  # fmt: skip


def _stability():
    yield Case("hold-back", "1.0, 1.1, 1.3: max", 1.3, _summary("stability", "hold_back", "max"))
    log = small_log()
    kept = [event for event in log.events if not _commits_tree(event)]
    lost = summarise([score(attrs.evolve(log, events=kept), normaliser_name="basic")])
    yield Case("missing at flushes", "tree is not committed", 1.0, lost["flushes"]["missing_words"])


def _word_times():
    yield Case("word starts, median", "", 0.01, _summary("word_times", "start", "median"))
    yield Case("word ends, bias", "0 and +100 ms", 0.05, _summary("word_times", "end", "bias"))
    yield Case("collar 50 ms", "", 0.5, _summary("word_times", "end", "within", "50 ms"))
    yield Case("collar 100 ms", "", 1.0, _summary("word_times", "end", "within", "100 ms"))
    yield Case("order", "no word starts before the last", 0.0, _summary("word_times", "backsteps"))


def _growth():
    yield Case("work", "a counter that is not known", None, _summary("work", "host_syncs"))
    line = slope([0, 1, 2, 3, 4], [1, 3, 5, 7, 9])
    yield Case("slope", "1, 3, 5, 7, 9", 2.0, line and line.per_hour)
    yield Case("slope", "a straight line has no spread", 2.0, line and line.low)
    # residuals -0.4, 0.6, -0.4, 0.6, -0.4 ... : error sqrt(1.2 / 3 / 10) = 0.2, t(3) = 3.182
    bent = slope([0, 1, 2, 3, 4], [0.6, 3.6, 4.6, 7.6, 8.6])
    yield Case("slope", "2 + 3.182 * 0.2 at the most", 2.6364, bent and bent.high, 0.01)
    counts = [window.counts["decoder_positions"] for window in work_windows(_long_log())]
    yield Case("work windows", "60 more a minute", [60, 120, 180, 240], counts)
    held = memory_slopes(_long_log())["state_bytes"]
    yield Case("memory slope", "1000 bytes more a minute", 60_000.0, held and held.per_hour)


def _summary(*path):
    """Return one figure of the small stream."""
    found = summarise([score(small_log(), normaliser_name="basic")])
    for key in path:
        found = found[key]
    return found


def _two_segments():
    """Return four words, two to a segment of 2 s, emitted at 1, 2, 3 and 5 s."""
    reference = Reference(
        text="one two three four",
        segments=[
            ReferenceSegment("one two", 0.0, 2.0),
            ReferenceSegment("three four", 2.0, 4.0),
        ],
    )
    events = [
        Commit(audio_time=time, wall=time, tokens=[TimedText(time - 1, time, f" {text}")])
        for time, text in ((1.0, "one"), (2.0, "two"), (3.0, "three"), (5.0, "four"))
    ]
    header = Header(audio="two", audio_seconds=5.0, backend="hand", reference=reference)
    return EventLog(header=header, events=[*events, End(audio_time=5.0, wall=5.0)])


def _long_log():
    """Return four minutes in which each minute takes 60 positions and 1000 bytes more."""
    events = []
    for minute in range(4):
        time = 60.0 * (minute + 1)
        events.append(AudioIn(audio_time=time, wall=time))
        events.append(call(time, time, 1.0, positions=60 * (minute + 1), state=1000 * (minute + 1)))
    header = Header(audio="long", audio_seconds=240.0, backend="hand")
    return EventLog(header=header, events=[*events, End(audio_time=240.0, wall=241.0)])


def _commits_tree(event):
    return isinstance(event, Commit) and _texts(event.tokens) == " tree"


def _texts(tokens):
    return "".join(token.text for token in tokens)


@pytest.mark.parametrize("case", list(cases()), ids=lambda c: f"{c.metric}: {c.reason}")
def test_a_metric_gives_the_figure_worked_out_by_hand(case):
    """The computed value agrees with the one worked out by hand."""
    assert case.is_right, f"expected {case.expected}, found {case.found}"
