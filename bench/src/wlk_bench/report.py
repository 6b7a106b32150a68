"""Format results as tables for the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table

    from wlk_bench.compare import Comparison

_MILLI = 1000.0
_FILE_WIDTH = 160


def rows(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the figures of a result that were measured, as pairs of label and text."""
    summary = result["summary"]
    for label, text in (
        *_quality(summary),
        *_speed(result),
        *_latency(summary),
        *_stability(summary),
        *_work(summary),
    ):
        if text is not None:
            yield label, text


def title(result: dict[str, Any]) -> str:
    """Return the backend, model and policy of a result on one line."""
    setup = result["setup"]
    parts = [setup["backend"], setup["model"], setup["stream_options"].get("policy")]
    return " · ".join(str(part) for part in parts if part)


def grid(heading: str, body: Iterable[tuple[str, str]]) -> Table:
    """Return pairs of label and text as a rich table."""
    from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it

    table = Table(title=heading, title_justify="left", show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column()
    for label, text in body:
        table.add_row(label, text)
    return table


def print_table(table: Table) -> None:
    """Print a table, as wide as the terminal or, to a file, _FILE_WIDTH columns wide."""
    from rich.console import Console  # noqa: PLC0415 -- only a terminal needs it

    Console(width=None if sys.stdout.isatty() else _FILE_WIDTH).print(table)


def comparison_rows(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the differences between A and B as pairs of label and text."""
    for label, paired in (("WER, B - A", comparison.wer), ("CER, B - A", comparison.cer)):
        if paired is None:
            yield label, "too little data for an interval"
            continue
        verdict = "significant" if paired.is_significant else "not significant"
        low, high = 100 * paired.low, 100 * paired.high
        yield label, f"{100 * paired.difference:+.2f} points [{low:+.2f}, {high:+.2f}], {verdict}"
    if comparison.rtf_ratio is not None:
        yield "RTF, B / A", f"{comparison.rtf_ratio:.2f}"
    for note in comparison.notes:
        yield "note", note


def percent(rate: dict[str, Any]) -> str | None:
    """Return an error rate in percent with its interval; None if it is undefined."""
    if rate["rate"] is None:
        return None
    text = f"{100 * rate['rate']:.2f} %"
    if rate["low"] is not None:
        text += f" [{100 * rate['low']:.2f}, {100 * rate['high']:.2f}]"
    return text


def _quality(summary: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    words, raw = summary["wer"], summary["wer_raw"]
    edits = ", ".join(str(words[name]) for name in ("substitutions", "deletions", "insertions"))
    yield "samples, audio", f"{summary['samples']}, {summary['audio_seconds']:.1f} s"
    yield "WER [95 %]", percent(words)
    yield "substituted, deleted, inserted", f"{edits} of {words['reference_length']} words"
    yield "CER [95 %]", percent(summary["cer"])
    yield "WER without normalising", None if raw is None else f"{100 * raw:.2f} %"
    yield "samples without errors", str(summary["perfect_samples"])
    if spread := summary["sample_wer"]:
        shown = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in spread.items())
        yield "WER of a sample", shown


def _speed(result: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    times, session = result["summary"]["real_time"], result["session"]
    rtf, tick, late = times["rtf"], times["tick_rtf"], times["lateness"]
    yield "RTF", None if rtf is None else f"{rtf:.3f} (speed {times['speed'] or 0:.1f}x)"
    if tick:
        spread = ", ".join(f"{tick[name]:.3f}" for name in ("p50", "p95", "max"))
        yield "RTF of a tick, p50, p95, max", spread
        yield "lateness of a tick, p50, p95", f"{_ms(late['p50'])}, {_ms(late['p95'])}"
        share = "95 % or more" if times["keeps_up"] else "fewer than 95 %"
        yield "ticks done before the next is due", share
    if session is not None:
        yield "loading and warming up", f"{session['load_seconds']:.2f} s"
        if session["streams"] > 1:
            label = f"{session['streams']} concurrent streams"
            yield label, f"{session['audio_per_second']:.1f} s of audio a second"


def _latency(summary: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    latency = summary["latency"]
    coverage = latency["coverage"]
    for label, delays, names in (
        ("emission latency, computation-unaware", latency["emission"]["unaware"], "p50 p90 p95"),
        ("emission latency, computation-aware", latency["emission"]["aware"], "p50 p90 p95"),
        ("first text shown after", latency["first_display"]["aware"], "p50 p90"),
        ("first text committed after", latency["first_commit"]["aware"], "p50 p90"),
        ("last text committed after", latency["finalisation"]["aware"], "p50 p90"),
    ):
        if delays:
            yield label, ", ".join(f"{name} {_s(delays[name])}" for name in names.split())
    yield "share of words measured", None if coverage is None else f"{100 * coverage:.1f} %"
    for name, label in (("long_yaal", "LongYAAL"), ("laal", "LAAL")):
        lag = summary["lagging"][name]
        if lag["unaware"] is not None:
            aware = "-" if lag["aware"] is None else _s(lag["aware"])
            yield f"{label}, unaware, aware", f"{_s(lag['unaware'])}, {aware}"


def _stability(summary: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    erased = summary["stability"]["normalised_erasure"]
    held = summary["stability"]["hold_back"]
    flushes, times = summary["flushes"], summary["word_times"]
    yield "normalised erasure", None if erased is None else f"{erased:.3f}"
    if held:
        yield "hold-back", f"p50 {_s(held['p50'])}, p90 {_s(held['p90'])}"
    if flushes:
        missing = f"{flushes['missing_words']} at {flushes['count']} flushes"
        yield "words missing at flushes", missing
    if times is None:
        return
    for boundary in ("start", "end"):
        errors = times[boundary]
        shares = errors["within"].items()
        within = ", ".join(f"{100 * share:.0f} % within {name}" for name, share in shares)
        spread = f"median {_ms(errors['median'])}, p90 {_ms(errors['p90'])}"
        yield f"word {boundary}s", f"{spread}, bias {_MILLI * errors['bias']:+.0f} ms; {within}"
    yield "AAS, words out of order", f"{_ms(times['aas'])}, {times['backsteps']}"


def _work(summary: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, count in summary["work"].items():
        yield f"{name} a second", None if count is None else f"{count:.1f}"
    growth = summary["growth"]
    if growth is None:
        return
    yield "growth over a stream of", f"{growth['stream_seconds']:.0f} s"
    for name, ratio in growth["last_to_second_window"].items():
        yield f"{name}, last / second minute", None if ratio is None else f"{ratio:.3f}"
    for name in ("state_bytes", "resident_bytes"):
        grown = growth[f"{name}_per_hour"]
        yield f"{name} an hour", None if grown is None else f"{grown / 2**20:+.2f} MiB"


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _ms(seconds: float) -> str:
    return f"{_MILLI * seconds:.0f} ms"
