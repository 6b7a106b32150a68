"""
Find the alignment heads of a Qwen3-ASR from clips with known word times.

    python -m wlk_qwen3_simul.detect_heads MODEL --manifest CLIPS.jsonl --output heads.json

Each clip costs one pass: the decoder is given what is said, and every head is asked where it looked
at each token, both at the row that predicts the token and at the row it is fed at.  The file holds
the better of the two conventions and the heads whose score, corrected for chance, comes near the
best one's.  A hundred clips of some ten words each are enough.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from typing import TYPE_CHECKING

from wlk_core import BackendUnavailable, OptionError, WLKError
from wlk_qwen3_simul.alignment_heads import AlignmentHeads
from wlk_qwen3_simul.detect.manifest import EXAMPLE, read_manifest
from wlk_qwen3_simul.detect.scores import Scores, best_heads
from wlk_qwen3_simul.specs import QWEN3_SIMUL, TORCH_DEVICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.detect.manifest import Clip

__all__ = ["choose", "detect", "main"]

COMMAND = "python -m wlk_qwen3_simul.detect_heads"
WORTHWHILE = 0.2  # score below which a head tells nothing to commit by
MOST = 20  # heads; the published lists are as long
LEAST = 0.8  # share of the best score


def detect(
    model: str,
    clips: Sequence[Clip],
    *,
    name: str | None = None,
    most: int = MOST,
    least: float = LEAST,
    device: str = "cpu",
    cache_dir: str | None = None,
) -> AlignmentHeads:
    """
    Return the alignment heads of *model*: a size alias, a repository or a directory.

    Args:
        model: what to load.
        clips: recordings with known word times.
        name: what the heads are said to be of; by default *model*.
        most: how many heads at most.
        least: share of the best head's score that every one of them reaches.
        device: auto, cpu, cuda or mps.
        cache_dir: where pulled models lie.

    Raises:
        ModelNotFoundError: there is no such model.
        AudioFormatError: a clip is no audio.
        OptionError: no head of the model does better than chance, or the device is none.
        BackendUnavailable: torch or the device is not to be had.

    """
    try:
        from wlk_qwen3_simul.detect.clips import score_clips  # noqa: PLC0415 -- brings torch
    except ImportError as error:
        raise BackendUnavailable(
            f"finding heads takes torch and transformers: {' '.join(str(error).split())}; "
            f"{QWEN3_SIMUL.requires['torch']}"
        ) from error
    scores = score_clips(model, clips, device=device, cache_dir=cache_dir)
    return choose(scores, name or model, clips=len(clips), most=most, least=least)


def choose(
    scores: Scores, model: str, *, clips: int, most: int = MOST, least: float = LEAST
) -> AlignmentHeads:
    """
    Return the heads that *scores* speak for.

    Raises:
        OptionError: no head does better than chance.

    """
    row, best = best_heads(scores, most=most, least=least)
    if not best or (best[0].score or 0.0) < WORTHWHILE:
        raise OptionError(
            f"no head of {model} looks at the word being said: the best score is "
            f"{best[0].score if best else 0.0:g}, where chance is 0 and {WORTHWHILE:g} would do; "
            "check the word times of the manifest"
        )
    layers, heads = scores.hits[row].shape
    return AlignmentHeads(
        model=model,
        layers=layers,
        heads=heads,
        row=row,
        best=best,
        chance=round(scores.chance, 4),
        source=f"{COMMAND}: {scores.tokens} tokens of {clips} clips, teacher-forced; share of them "
        "whose attention peaks in the word, corrected for chance",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"a line of the manifest: {EXAMPLE}",
    )
    parser.add_argument("model", help="size alias, repository or directory")
    parser.add_argument("--manifest", type=Path, required=True, help="clips and their words, JSONL")
    parser.add_argument("--output", type=Path, required=True, help="heads file to write")
    parser.add_argument("--name", help="what the file calls the model; by default MODEL")
    parser.add_argument("--most", type=int, default=MOST, help="heads (%(default)s)")
    parser.add_argument(
        "--least", type=float, default=LEAST, help="share of the best score (%(default)s)"
    )
    parser.add_argument(
        "--device", default="cpu", choices=TORCH_DEVICES, help="where it runs (%(default)s)"
    )
    parser.add_argument("--cache-dir", help="where pulled models lie")
    asked = parser.parse_args(arguments)
    try:
        clips = read_manifest(asked.manifest)
        found = detect(
            asked.model,
            clips,
            name=asked.name,
            most=asked.most,
            least=asked.least,
            device=asked.device,
            cache_dir=asked.cache_dir,
        )
        asked.output.write_text(found.to_json(), encoding="utf-8")
    except (WLKError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 -- a command's own output
        return 1
    print(found.to_json(), end="")  # noqa: T201 -- as above
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
