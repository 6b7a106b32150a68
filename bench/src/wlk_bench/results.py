"""The result of a run as a JSON document: configuration, environment and every figure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wlk_bench.environment import describe_platform
from wlk_bench.errors import ResultError
from wlk_bench.summary import summarise
from wlk_bench.whisperlivekit import whisperlivekit_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wlk_bench.config import RunConfig
    from wlk_bench.scoring import SampleScore

RESULT_SCHEMA = "wlk-bench-result/1"
WORST = 10  #: how many samples to list, those with the highest error rates


def build_result(
    config: RunConfig,
    scores: Sequence[SampleScore],
    *,
    session: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """
    Return the document: rates are fractions, times are seconds.

    `session` has the wall-clock figures of the last invocation alone; None if it recorded nothing.
    `engine` is what the loaded engine states about itself, such as the alignment heads that "auto"
    stands for.  `missing` names recordings that the data lists and does not contain.
    """
    ranked = sorted(scores, key=lambda scored: (-(scored.words.rate or 0.0), scored.id))
    return {
        "schema": RESULT_SCHEMA,
        "setup": config.to_json(),
        "platform": describe_platform(),
        "versions": dict(config.versions),
        "summary": summarise(scores),
        "session": session,
        "engine": engine,
        "missing": list(missing),
        "worst": [scored.id for scored in ranked[:WORST] if scored.words.errors],
        "samples": [scored.to_json() for scored in scores],
    }


def read_result(path: Path) -> dict[str, Any]:
    """
    Return the result at *path*: a result.json, the directory of one, or samples of whisperlivekit.

    Raises:
        ResultError: there is no result, or it has another schema.

    """
    results = read_results(path)
    if len(results) != 1:
        raise ResultError(
            f"expected one result, got a table of {len(results)} in {path}, without the samples "
            "that a comparison needs; draw it with: wlk-bench plot"
        )
    return results[0]


def read_results(path: Path) -> list[dict[str, Any]]:
    """
    Return the results at *path*, also those of a file of whisperlivekit's benchmarks.

    Raises:
        ResultError: there is no result, or it has another schema.

    """
    file = path / "result.json" if path.is_dir() else path
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
        schema = result.get("schema")
    except (OSError, ValueError, AttributeError) as error:
        raise ResultError(
            f"expected the result of a run, got {path}: {str(error) or type(error).__name__}; "
            "make one with: wlk-bench run BACKEND --output DIRECTORY"
        ) from error
    if schema is None and (results := whisperlivekit_results(result, name=str(file))):
        return results
    if schema != RESULT_SCHEMA:
        raise ResultError(
            f"expected schema {RESULT_SCHEMA}, got {schema!r} in {file}; rerun the benchmark"
        )
    return [dict(result)]
