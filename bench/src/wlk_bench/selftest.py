"""A short check of the metrics: the figures of a three-second stream, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_bench.events import (
    AudioIn,
    Call,
    Commit,
    End,
    EventLog,
    Header,
    HypothesisShown,
    TimedText,
)
from wlk_bench.reference import Reference, ReferenceWord
from wlk_bench.scoring import score
from wlk_bench.summary import summarise
from wlk_core.processor import WorkCounters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_bench.events import Event


def small_log() -> EventLog:
    """
    Return the log of a three-second stream in one-second chunks.

    The chunks take 0.2, 0.4 and 0.6 s of work, and `finish` takes 0.4 s.
    Reference: one (0.5 to 0.9), two (1.2 to 1.6), three (2.1 to 2.5).
    Displayed: one / one too / one two three / one two tree.
    """
    first, second = TimedText(0.52, 0.9, " one"), TimedText(1.2, 1.7, " two")
    events: tuple[Event, ...] = (
        AudioIn(audio_time=1.0, wall=1.0),
        call(1.0, 1.0, 0.2, stable=0.0, positions=10),
        HypothesisShown(audio_time=1.0, wall=1.2, tokens=(first,)),
        AudioIn(audio_time=2.0, wall=2.0),
        call(2.0, 2.0, 0.4, stable=0.9, positions=20),
        Commit(audio_time=2.0, wall=2.4, tokens=(first,)),
        HypothesisShown(audio_time=2.0, wall=2.4, tokens=(TimedText(1.2, 1.6, " too"),)),
        AudioIn(audio_time=3.0, wall=3.0),
        call(3.0, 3.0, 0.6, stable=1.7, positions=30),
        Commit(audio_time=3.0, wall=3.6, tokens=(second,)),
        HypothesisShown(audio_time=3.0, wall=3.6, tokens=(TimedText(2.1, 2.5, " three"),)),
        call(3.0, 3.6, 0.4, stable=3.0, positions=5, kind="finish"),
        Commit(audio_time=3.0, wall=4.0, tokens=(TimedText(2.1, 2.4, " tree"),)),
        HypothesisShown(audio_time=3.0, wall=4.0, tokens=()),
        End(audio_time=3.0, wall=4.0),
    )
    reference = Reference(
        text="One, two three.",
        words=(
            ReferenceWord("One,", 0.5, 0.9),
            ReferenceWord("two", 1.2, 1.6),
            ReferenceWord("three.", 2.1, 2.5),
        ),
    )
    header = Header(audio="small", audio_seconds=3.0, reference=reference)
    return EventLog(header=header, events=events)


def cases() -> Iterator[tuple[str, str, float, float | None]]:
    """
    Yield a metric, the reason for its value, the value by hand and the computed one.

    There is one case for each kind of figure; the tests of wlk-bench have more.
    """
    summary = summarise([score(small_log(), normaliser_name="basic")])
    for metric, reason, expected, path in (
        ("WER", "tree for three, one of three words", 1 / 3, "wer rate"),
        ("WER, raw", "One, two three. against one two tree", 2 / 3, "wer_raw"),
        ("CER", "one letter of eleven is missing", 1 / 11, "cer rate"),
        ("RTF", "1.6 s of work on 3 s", 1.6 / 3, "real_time rtf"),
        ("RTF of a tick, p95", "0.2, 0.4, 0.6", 0.58, "real_time tick_rtf p95"),
        ("lateness, max", "ticks end 0.2, 0.4, 0.6 s late", 0.6, "real_time lateness max"),
        ("emission, unaware, p50", "1.1 and 1.4", 1.25, "latency emission unaware p50"),
        ("emission, aware, p50", "1.5 and 2.0", 1.75, "latency emission aware p50"),
        ("coverage", "two of three words", 2 / 3, "latency coverage"),
        ("first commit, aware", "2.4 - 0.5", 1.9, "latency first_commit aware p50"),
        ("finalisation, aware", "4.0 - 2.5", 1.5, "latency finalisation aware p50"),
        ("LAAL", "(2 + 2) / 2", 2.0, "lagging laal unaware"),
        ("erasure", "too and three erased, of three", 2 / 3, "stability normalised_erasure"),
        ("hold-back, p50", "1.0, 1.1, 1.3", 1.1, "stability hold_back p50"),
        ("missing words", "tree counts for three", 0.0, "flushes missing_words"),
        ("word starts, bias", "+20 and 0 ms", 0.01, "word_times start bias"),
        ("word ends, p90", "0 and +100 ms", 0.09, "word_times end p90"),
        ("AAS", "(20 + 0 + 0 + 100) / 4", 0.03, "word_times aas"),
        ("work", "65 positions in 3 s", 65 / 3, "work decoder_positions"),
    ):
        yield metric, reason, expected, _figure(summary, path)


def call(
    audio_time: float,
    wall: float,
    duration: float,
    *,
    stable: float = 0.0,
    positions: int = 0,
    kind: str = "process_iter",
    state: int | None = None,
) -> Call:
    """Return a call that processed all audio up to *audio_time*."""
    return Call(
        kind=kind,
        audio_time=audio_time,
        wall=wall,
        duration=duration,
        processed_up_to=audio_time,
        stable_up_to=stable,
        work=WorkCounters(decoder_positions=positions),
        state_bytes=state,
    )


def _figure(summary: Any, path: str) -> Any:
    for key in path.split():
        summary = summary[key]
    return summary
