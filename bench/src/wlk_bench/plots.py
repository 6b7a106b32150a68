"""Plots of results, drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_bench.compare import differences
from wlk_bench.report import title
from wlk_bench.whisperlivekit import DATA as WHISPERLIVEKIT_DATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: Sequence[dict[str, Any]]) -> Figure:
    """
    Return a figure of *results*: error against cost, latency, and cost over a stream.

    The latter two are left out if no result has their figures.  In the first panel, results that
    are not comparable with the first one of this program have hollow markers, and the legend gives
    the reason.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 -- half a second

    panels = [_error_against_cost]
    samples = [sample for result in results for sample in result["samples"]]
    if any(sample["emission_unaware"] for sample in samples):
        panels.append(_latencies)
    if any(sample["windows"] for sample in samples):
        panels.append(_cost_over_time)
    figure = Figure(figsize=(5 * len(panels), 4.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, place in zip(panels, axes, strict=True):
        panel(place, results)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def _error_against_cost(axes: Axes, results: Sequence[dict[str, Any]]) -> None:
    axes.axvline(1.0, color="0.4", linestyle="--", linewidth=1)
    axes.annotate("real time", (1.0, 0.98), xycoords=("data", "axes fraction"), rotation=90,
                  ha="right", va="top", color="0.4", fontsize=8)  # fmt: skip
    own = [r for r in results if r["setup"]["data"] != WHISPERLIVEKIT_DATA]
    for index, result in enumerate(results):
        wer, rtf = result["summary"]["wer"], result["summary"]["real_time"]["rtf"]
        if wer["rate"] is None or rtf is None:
            axes.plot([], [], "o", color=f"C{index % 10}", label=title(result))
            continue
        rate = 100 * wer["rate"]
        bars = None
        if wer["low"] is not None:
            bars = [[max(0.0, rate - 100 * wer["low"])], [max(0.0, 100 * wer["high"] - rate)]]
        reasons = differences(own[0], result) if own else ["measured by whisperlivekit"]
        axes.errorbar(
            [rtf],
            [rate],
            yerr=bars,
            fmt="o",
            capsize=3,
            clip_on=False,
            color=f"C{index % 10}",
            markerfacecolor=f"C{index % 10}" if not reasons else "none",
            label=title(result) + (f" (not comparable: {reasons[0]})" if reasons else ""),
        )
    machines = {str(result["platform"]) for result in results}
    axes.set(
        xlabel="RTF" if len(machines) == 1 else "RTF (machines differ: not comparable)",
        ylabel="WER in %, 95 % interval",
        xscale="log",
        title="Error against cost",
    )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="both", labelsize=8)


def _latencies(axes: Axes, results: Sequence[dict[str, Any]]) -> None:
    for index, result in enumerate(results):
        for kind, style in (("emission_unaware", "-"), ("emission_aware", ":")):
            delays = sorted(d for sample in result["samples"] for d in sample[kind])
            if delays:
                shares = [100 * (rank + 1) / len(delays) for rank in range(len(delays))]
                axes.plot(delays, shares, style, color=f"C{index % 10}")
    axes.plot([], [], "-", color="0.4", label="audio alone (computation-unaware)")
    axes.plot([], [], ":", color="0.4", label="with computation (computation-aware)")
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    axes.set(
        xlabel="seconds from the end of a word to its commit",
        ylabel="words committed by then, %",
        title="Emission latency",
    )


def _cost_over_time(axes: Axes, results: Sequence[dict[str, Any]]) -> None:
    for index, result in enumerate(results):
        longest = max(result["samples"], key=lambda sample: sample["audio_seconds"], default=None)
        if longest is None:
            continue
        windows = [window for window in longest["windows"] if window["seconds"]]
        axes.plot(
            [window["start"] / 60 for window in windows],
            [window["busy_seconds"] / window["seconds"] for window in windows],
            "o-",
            markersize=3,
            color=f"C{index % 10}",
        )
    axes.set(
        xlabel="minute of the longest stream",
        ylabel="RTF in that minute",
        title="Cost over the stream",
    )
    axes.set_ylim(bottom=0)
