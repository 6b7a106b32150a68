"""The arguments of the command, and the heads that its scores justify."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from typing import TYPE_CHECKING

from wlk_core.plugins import BackendUnavailable, OptionError, WLKError
import wlk_qwen3_simul.detect_heads
from wlk_qwen3_simul.detect_heads.manifest import EXAMPLE, read_manifest
from wlk_qwen3_simul.detect_heads.scores import best_heads
from wlk_qwen3_simul.engine.alignment_heads import DETECT_COMMAND, AlignmentHeads
from wlk_qwen3_simul.plugin import QWEN3_SIMUL, TORCH_DEVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_qwen3_simul.detect_heads.scores import Scores

__all__ = ["choose", "main"]

MIN_BEST_SCORE = 0.2  # a best score below it is too close to chance to commit words by
MAX_HEADS = 20  # as many as in the published lists
MIN_SHARE = 0.8  # of the best score


def choose(scores: Scores, model: str, *, clips: int) -> AlignmentHeads:
    """
    Return the heads that *scores* justify.

    Raises:
        OptionError: every head scores close to chance.

    """
    row, best = best_heads(scores, max_heads=MAX_HEADS, min_share=MIN_SHARE)
    if not best or (best[0].score or 0.0) < MIN_BEST_SCORE:
        raise OptionError(
            f"no head of {model} attends to the spoken word: the best score is "
            f"{best[0].score if best else 0.0:g}, where chance is 0 and {MIN_BEST_SCORE:g} is "
            "enough; check the word times of the manifest"
        )
    layers, heads = scores.hits[row].shape
    return AlignmentHeads(
        model=model,
        layers=layers,
        heads=heads,
        row=row,
        best=best,
        chance=round(scores.chance, 4),
        source=f"{DETECT_COMMAND}: {scores.tokens} tokens of {clips} clips, teacher-forced; share "
        "of them whose attention peaks in the word, corrected for chance",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog=DETECT_COMMAND,
        description=wlk_qwen3_simul.detect_heads.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"a line of the manifest: {EXAMPLE}",
    )
    parser.add_argument("model", help="size alias, repository or directory")
    parser.add_argument("--manifest", type=Path, required=True, help="clips and their words, JSONL")
    parser.add_argument("--output", type=Path, required=True, help="heads file to write")
    parser.add_argument(
        "--device", default="cpu", choices=TORCH_DEVICES, help="device of the model (%(default)s)"
    )
    parser.add_argument("--cache-dir", help="directory of pulled models")
    options = parser.parse_args(arguments)
    try:
        clips = read_manifest(options.manifest)
        scores = _import_score_clips()(
            options.model,
            clips,
            spec=QWEN3_SIMUL,
            device=options.device,
            cache_dir=options.cache_dir,
        )
        found = choose(scores, options.model, clips=len(clips))
        options.output.write_text(found.to_json(), encoding="utf-8")
    except (WLKError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 -- a command's own output
        return 1
    print(found.to_json(), end="")  # noqa: T201 -- as above
    return 0


def _import_score_clips() -> Callable[..., Scores]:
    """Import torch and transformers; a broken installation of them may raise anything."""
    try:
        from wlk_qwen3_simul.detect_heads.clips import score_clips  # noqa: PLC0415 -- imports torch
    except Exception as error:
        raise BackendUnavailable(
            f"finding heads takes torch and transformers: {' '.join(str(error).split())}; "
            f"{QWEN3_SIMUL.requires['torch']}"
        ) from error
    return score_clips
