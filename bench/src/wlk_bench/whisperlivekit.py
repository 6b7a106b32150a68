"""Read the results of whisperlivekit's benchmarks of Qwen3-ASR as results of this program."""

from __future__ import annotations

from typing import Any

from wlk_bench.errors import ResultError
from wlk_bench.metrics.error_rate import character_edits, word_edits
from wlk_bench.metrics.statistics import pooled_rate

DATA = "LibriSpeech test-clean, measured by whisperlivekit"  #: equals no data set of this program


def whisperlivekit_results(table: dict[str, Any], *, name: str) -> list[dict[str, Any]]:
    """
    Return the results in a parsed file; none if it has another form.

    Its LibriSpeech benchmark wrote one result with all samples, and fractions.  The results.json
    beside its figures has a table of systems without samples, and error rates in percent.

    Raises:
        ResultError: a figure is missing or is not a number; the message begins with *name*.

    """
    try:
        if "per_sample" in table:
            return [_with_samples(table)]
        systems = table.get("models") or table.get("librispeech_clean", {}).get("systems", {})
        return [_without_samples(system, figures, table) for system, figures in systems.items()]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultError(
            f"{name} has the form of a benchmark of whisperlivekit, but not its figures: "
            f"{type(error).__name__}: {error}"
        ) from error


def _with_samples(table: dict[str, Any]) -> dict[str, Any]:
    samples = [_sample(sample) for sample in table["per_sample"]]
    result = _result(
        backend=table["backend"],
        model=table["model"],
        mode="chapter" if "chapter" in table["mode"] else table["mode"],
        chunk_seconds=table.get("config", {}).get("chunk_seconds"),
        platform=table.get("platform"),
        rtf=float(table["rtf"]),
        samples=samples,
    )
    result["summary"]["wer"] = pooled_rate([b for s in samples for b in s["word_blocks"]])
    return result


def _sample(sample: dict[str, Any]) -> dict[str, Any]:
    reference, hypothesis = str(sample["ref_norm"]), str(sample["hyp_norm"])
    return {
        "id": sample["id"],
        "audio_seconds": float(sample["duration_s"]),
        "reference_normalised": reference,
        "word_blocks": word_edits(reference, hypothesis).blocks,
        "character_blocks": character_edits(reference, hypothesis).blocks,
        "emission_unaware": [],
        "emission_aware": [],
        "windows": [],
    }


def _without_samples(system: str, figures: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    result = _result(
        backend="whisperlivekit",
        model=system,
        mode="unknown",
        chunk_seconds=None,
        platform=table.get("platform"),
        rtf=float(figures["rtf"]),
        samples=[],
    )
    result["summary"]["wer"] = {"rate": float(figures["wer"]) / 100, "low": None, "high": None}
    return result


def _result(
    *,
    backend: str,
    model: str,
    mode: str,
    chunk_seconds: float | None,
    platform: Any,
    rtf: float,
    samples: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return what a comparison and a plot need of a result."""
    return {
        "setup": {
            "backend": backend,
            "model": model,
            "stream_options": {},
            "data": DATA,
            "mode": mode,
            "normaliser": "whisperlivekit",
            "unit": "word",
            "task": "transcribe",
            "chunk_seconds": chunk_seconds,
            "is_paced": False,
            "streams": 1,
        },
        "platform": {"processor": platform},
        "summary": {"real_time": {"rtf": rtf}},
        "samples": samples,
    }
