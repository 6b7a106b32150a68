"""Metrics against figures worked out by hand, beyond those of `wlk-bench selftest`."""

from __future__ import annotations

import attrs
import pytest

from wlk_bench.events import AudioIn, Commit, End, EventLog, Header, TimedText
from wlk_bench.metrics.alignment import align_words
from wlk_bench.metrics.error_rate import ErrorCounts, character_edits, word_edits
from wlk_bench.metrics.lagging import laal, yaal
from wlk_bench.metrics.normalise import match_key, normaliser, unit_of
from wlk_bench.metrics.segmentation import soft_segments
from wlk_bench.metrics.statistics import Distribution, paired_difference, ratio_interval, slope
from wlk_bench.metrics.work import memory_slopes, work_windows
from wlk_bench.reference import Reference, ReferenceSegment
from wlk_bench.scoring import score
from wlk_bench.selftest import call, small_log
from wlk_bench.summary import summarise


def scored(path, *logs):
    """Return one figure of a run of these streams."""
    found = summarise([score(log, normaliser_name="basic") for log in logs])
    for key in path.split():
        found = found[key]
    return found


def small(path):
    """Return one figure of the stream of the self-test."""
    return scored(path, small_log())


def stream(text, *committed, segments=(), language=None):
    """Return a log of five seconds in which words were committed as they ended."""
    events = [
        Commit(audio_time=end, wall=end, tokens=(TimedText(start, end, text),))
        for start, end, text in committed
    ]
    reference = Reference(text=text, segments=segments)
    header = Header(audio="x", audio_seconds=5.0, language=language, reference=reference)
    return EventLog(header=header, events=(*events, End(audio_time=5.0, wall=5.0)))


def committed(*dropped):
    """Return the log of the self-test without the commits of these words."""
    log = small_log()
    kept = [e for e in log.events if not isinstance(e, Commit) or e.tokens[0].text not in dropped]
    return attrs.evolve(log, events=tuple(kept))


def long_log():
    """Return a log of four minutes; each takes 60 positions and 1000 bytes more than the last."""
    events = []
    for minute in range(4):
        time = 60.0 * (minute + 1)
        events.append(AudioIn(audio_time=time, wall=time))
        events.append(call(time, time, 1.0, positions=60 * (minute + 1), state=1000 * (minute + 1)))
    header = Header(audio="long", audio_seconds=240.0, reference=Reference(text=""))
    return EventLog(header=header, events=(*events, End(audio_time=240.0, wall=241.0)))


DELAYS = [1.0, 2.0, 4.0]
TWO_SEGMENTS = stream(
    "one two three four",
    (0.0, 1.0, " one"), (1.0, 2.0, " two"), (2.0, 3.0, " three"), (4.0, 5.0, " four"),
    segments=(ReferenceSegment("one two", 0.0, 2.0), ReferenceSegment("three four", 2.0, 4.0)),
)  # fmt: skip
ONE = stream("one", (0.0, 1.0, " one"))
CHINESE = stream("你好吗", (0.0, 1.0, "你好"), (1.0, 2.0, "吧"), language="zh")
UNCOMMITTED = score(committed(" one", " two", " tree"), normaliser_name="basic")
LONG = long_log()
SEGMENTS = [["one", "two"], ["three", "four"]]
CASES = {
    "WER, one word replaced and one added in four": (
        0.5,
        word_edits("a b c d", "a x c d e").counts.rate,
    ),
    "WER, none of four words recognised": (1.0, word_edits("a b c d", "").counts.rate),
    "WER, a reference without words has no rate": (None, word_edits("", "a b").counts.rate),
    "WER, words in silence are insertions": (2, word_edits("", "a b").counts.insertions),
    "WER, 1 of 1 and 0 of 9 make 1 of 10": (
        0.1,
        ErrorCounts.total(word_edits(t, h).counts for t, h in [("a", "b"), (9 * "a ",) * 2]).rate,
    ),
    "CER, white space does not count": (0.0, character_edits("to day", "today").counts.rate),
    "basic: punctuation and case": ("mr smith s 20", normaliser("basic")("Mr. Smith's 20")),
    "english: titles, clitics, numbers": (
        "mister smith is 21",
        normaliser("english")("Mr. Smith's twenty-one"),
    ),
    "english joins digits to one word": ("42", normaliser("english")("four two")),
    "key of a word: a clitic": ("dont", match_key("Don't")),
    "key of a word: an accent and a mark": ("café", match_key("Café,")),
    "key of a mark": ("", match_key("--")),
    "unit of English": ("word", unit_of("en")),
    "unit of an unknown language": ("word", unit_of(None)),
    "unit of Chinese": ("char", unit_of("zh")),
    "a mark aligns with nothing": (
        ((0, 0), (2, 1)),
        align_words(["one", "-", "two"], ["one", "two", "."]).equal,
    ),
    "blocks, replaced in the first, added in the last": (
        ((1, 2), (1, 2)),
        word_edits("a b c d", "a x c d e", block=2).blocks,
    ),
    "interval, equal blocks have no spread, low": (0.1, ratio_interval([(1, 10)] * 20)[0]),
    "interval, equal blocks have no spread, high": (0.1, ratio_interval([(1, 10)] * 20)[1]),
    "interval, 400 fair coins: 0.5 less 1.96 times the root of 0.25 / 400": (
        pytest.approx(0.451, abs=0.006),
        ratio_interval([(0, 1), (1, 1)] * 200)[0],
    ),
    "interval, no error in 100: (1 - p) ** 100 = 0.025": (
        pytest.approx(0.03622, abs=1e-5),
        ratio_interval([(0, 50)] * 2)[1],
    ),
    "interval, one block has none": (None, ratio_interval([(1, 10)])),
    "paired, one error less in every block": (
        -0.1,
        paired_difference([(2, 10)] * 20, [(1, 10)] * 20).difference,
    ),
    "paired, and so in every resample": (
        -0.1,
        paired_difference([(2, 10)] * 20, [(1, 10)] * 20).high,
    ),
    "no numbers have no distribution": (None, Distribution.of([])),
    "RTF of a tick, 0.2, 0.4, 0.6: p50": (0.4, small("real_time tick_rtf p50")),
    "RTF of a tick, 0.2, 0.4, 0.6: max": (0.6, small("real_time tick_rtf max")),
    "each tick is done within its second": (True, small("real_time keeps_up")),
    "emission, unaware, p90 of one and two": (1.37, small("latency emission unaware p90")),
    "emission, aware, p90 of one and two": (1.95, small("latency emission aware p90")),
    "first display, unaware": (0.5, small("latency first_display unaware p50")),
    "first display, aware": (0.7, small("latency first_display aware p50")),
    "first commit, unaware": (1.5, small("latency first_commit unaware p50")),
    "finalisation, unaware": (0.5, small("latency finalisation unaware p50")),
    "LAAL, (1 + 1 + 2) / 3": (4 / 3, laal(DELAYS, source_seconds=3, reference_length=3)),
    "LAAL, six reference words: (1 + 1.5 + 3) / 3": (
        5.5 / 3,
        laal(DELAYS, source_seconds=3, reference_length=6),
    ),
    "LAAL of no words": (None, laal([], source_seconds=3, reference_length=2)),
    "YAAL, words at the end do not count: (1 + 1) / 2": (
        1.0,
        yaal(DELAYS, source_seconds=3, reference_length=3),
    ),
    "YAAL, all words at the end": (None, yaal([3.0, 3.0], source_seconds=3, reference_length=2)),
    "LongYAAL, they count while the recording lasts: (1 + 1 + 2) / 3": (
        4 / 3,
        yaal(DELAYS, source_seconds=3, reference_length=3, recording_seconds=5),
    ),
    "LongYAAL, segments of 1.0 and 1.0": (1.0, scored("lagging long_yaal unaware", TWO_SEGMENTS)),
    "soft segments, a word goes to the most similar one": (
        [[0, 1], [2, 3]],
        soft_segments(SEGMENTS, ["one", "to", "three", "four"]),
    ),
    "soft segments, and so does an inserted word": (
        [[0, 1], [2, 3, 4]],
        soft_segments(SEGMENTS, ["one", "two", "thr", "three", "four"]),
    ),
    "soft segments, a mark before all words": ([[1]], soft_segments([["one"]], [".", "one"])),
    "soft segments of no words": ([[], []], soft_segments([["a"], ["b"]], [])),
    "hold-back, 1.0, 1.1, 1.3: max": (1.3, small("stability hold_back max")),
    "erasure, committed text is never taken back": (
        0.0,
        scored("stability normalised_erasure", TWO_SEGMENTS),
    ),
    "tree is not committed": (1.0, scored("flushes missing_words", committed(" tree"))),
    "word starts, median": (0.01, small("word_times start median")),
    "word ends, bias of 0 and +100 ms": (0.05, small("word_times end bias")),
    "collar 50 ms": (0.5, small("word_times end within")["50 ms"]),
    "collar 100 ms": (1.0, small("word_times end within")["100 ms"]),
    "no word starts before the last": (0.0, small("word_times backsteps")),
    "a counter that is not known": (None, small("work host_syncs")),
    "slope of 1, 3, 5, 8": (2.3, slope([(0, 1), (1, 3), (2, 5), (3, 8)])),
    "slope of one place": (None, slope([(1.0, 1.0), (1.0, 2.0)])),
    "work windows, 60 more a minute": (
        [60, 120, 180, 240],
        [window.counts["decoder_positions"] for window in work_windows(LONG)],
    ),
    "the rest is in the last window": ([100, 140], [w.seconds for w in work_windows(LONG, 100)]),
    "no streams have no figures": ([0, None], [scored("samples"), scored("wer rate")]),
    "a reference without words has no rates": (
        [None, 0, {"unaware": None, "aware": None}],
        [scored(path, stream("")) for path in ("wer rate", "wer errors", "lagging long_yaal")],
    ),
    "words invented in silence count in the corpus: 1 of 2": (
        0.5,
        scored(
            "wer rate",
            stream("", (1.0, 2.0, " boo")),
            stream("one two", (0.0, 1.0, " one"), (1.0, 2.0, " two")),
        ),
    ),
    "without word times there are no figures of them": (
        4 * [None],
        [
            scored(path, ONE)
            for path in ("latency emission unaware", "latency coverage", "word_times", "flushes")
        ],
    ),
    "without word times there is LAAL": (1.0, scored("lagging laal unaware", ONE)),
    "Chinese, one of three characters": (1 / 3, scored("cer rate", CHINESE)),
    "Chinese, characters on the screen": (3, score(CHINESE, normaliser_name="basic").erasure.final),
    "Chinese, LAAL of characters": (
        (1 + (1 - 5 / 3) + (2 - 10 / 3)) / 3,
        scored("lagging laal unaware", CHINESE),
    ),
    "equal streams have the rate of one": (1 / 3, scored("wer rate", small_log(), small_log())),
    "and twice its words": (6, scored("wer reference_length", small_log(), small_log())),
    "and its lag": (2.0, scored("lagging laal unaware", small_log(), small_log())),
    "shown and never committed: no words": (0, UNCOMMITTED.words.hypothesis_length),
    "shown and never committed: no lag": ((), UNCOMMITTED.long_yaal),
    "memory, 1000 bytes more a minute": (
        60_000.0,
        memory_slopes(LONG)["state_bytes_per_hour"],
    ),
}


@pytest.mark.parametrize(("expected", "found"), CASES.values(), ids=CASES)
def test_a_metric_gives_the_figure_worked_out_by_hand(expected, found):
    """The computed value equals the one worked out by hand."""
    assert found == (pytest.approx(expected, abs=1e-9) if type(expected) is float else expected)
