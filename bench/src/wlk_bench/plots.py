"""Plots of results, drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_bench.compare import differences
from wlk_bench.report import title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: Sequence[dict[str, Any]]) -> Figure:
    """
    Return a figure of *results*: error against cost, latency, and cost over a stream.

    In the first panel, results that are not comparable with the first one have hollow markers, and
    the legend gives the reason.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 -- half a second

    figure = Figure(figsize=(15, 4.8), layout="constrained")
    cost, latency, time = figure.subplots(1, 3)
    _error_against_cost(cost, results)
    _latencies(latency, results)
    _cost_over_time(time, results)
    figure.legend(
        *cost.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def _error_against_cost(axes: Axes, results: Sequence[dict[str, Any]]) -> None:
    axes.axvline(1.0, color="0.4", linestyle="--", linewidth=1)
    axes.annotate("real time", (1.0, 0.98), xycoords=("data", "axes fraction"), rotation=90,
                  ha="right", va="top", color="0.4", fontsize=8)  # fmt: skip
    for index, result in enumerate(results):
        wer, rtf = result["summary"]["wer"], result["summary"]["real_time"]["rtf"]
        if wer["rate"] is None or rtf is None:
            axes.plot([], [], "o", color=f"C{index % 10}", label=title(result))
            continue
        rate = 100 * wer["rate"]
        bars = None
        if wer["low"] is not None:
            bars = [[max(0.0, rate - 100 * wer["low"])], [max(0.0, 100 * wer["high"] - rate)]]
        reasons = differences(results[0], result)
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
