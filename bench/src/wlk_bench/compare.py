"""Compare two results, unless their figures mean different things."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.errors import NotComparable
from wlk_bench.metrics.statistics import paired_difference

if TYPE_CHECKING:
    from wlk_bench.metrics.statistics import PairedDifference

_MEANING = ("data", "mode", "normaliser", "unit", "task")  # what an error rate refers to


@attrs.frozen(kw_only=True)
class Comparison:
    """
    How B differs from A; negative differences in error rates mean that B is better.

    `notes` say why times are not comparable: another machine, schedule or pacing.
    """

    wer: PairedDifference | None
    cer: PairedDifference | None
    rtf_ratio: float | None
    notes: tuple[str, ...]


def differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Return the reasons why the error rates of two results are not comparable."""
    reasons = [
        f"{key} {a['setup'][key]} and {b['setup'][key]}"
        for key in _MEANING
        if a["setup"][key] != b["setup"][key]
    ]
    references = [
        [(sample["id"], sample["reference_normalised"]) for sample in result["samples"]]
        for result in (a, b)
    ]
    if not reasons and references[0] != references[1]:
        reasons.append("different references for data of the same name")
    return reasons


def compare(a: dict[str, Any], b: dict[str, Any]) -> Comparison:
    """
    Compare two results sample by sample.

    Raises:
        NotComparable: the data, mode, normaliser, unit or task differs; the message says which.

    """
    if reasons := differences(a, b):
        raise NotComparable(
            f"the error rates are not comparable: {'; '.join(reasons)}; run both with the same "
            "--data, --mode, --limit, --normaliser and --task"
        )
    rtf_a, rtf_b = (result["summary"]["real_time"]["rtf"] for result in (a, b))
    return Comparison(
        wer=_paired(a, b, "word_blocks"),
        cer=_paired(a, b, "character_blocks"),
        rtf_ratio=rtf_b / rtf_a if rtf_a and rtf_b is not None else None,
        notes=tuple(_notes(a, b)),
    )


def _paired(a: dict[str, Any], b: dict[str, Any], blocks: str) -> PairedDifference | None:
    blocks_a, blocks_b = (
        list(chain.from_iterable(sample[blocks] for sample in result["samples"]))
        for result in (a, b)
    )
    return paired_difference(blocks_a, blocks_b)


def _notes(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    notes: list[str] = []
    if a["platform"] != b["platform"]:
        notes.append("the machines differ: times are not comparable")
    for key, words in {
        "chunk_seconds": "chunk schedules differ: latencies are not comparable",
        "is_paced": "only one run was paced in real time: times are not comparable",
        "streams": "numbers of concurrent streams differ: times are not comparable",
    }.items():
        if a["setup"][key] != b["setup"][key]:
            notes.append(f"{words} ({a['setup'][key]} and {b['setup'][key]})")
    return notes
