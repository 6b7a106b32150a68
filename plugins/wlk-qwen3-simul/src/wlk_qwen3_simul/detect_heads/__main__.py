"""The command `python -m wlk_qwen3_simul.detect_heads`."""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
from typing import TYPE_CHECKING

from wlk_core.plugins import BackendUnavailable, WLKError
from wlk_core.untrusted import reason
import wlk_qwen3_simul.detect_heads
from wlk_qwen3_simul.detect_heads.manifest import EXAMPLE, read_manifest
from wlk_qwen3_simul.detect_heads.scores import choose
from wlk_qwen3_simul.engine.alignment_heads import DETECT_COMMAND
from wlk_qwen3_simul.plugin import QWEN3_SIMUL, TORCH_DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_qwen3_simul.detect_heads.scores import Scores


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
    parser.add_argument("--device", default="cpu", help="device of the model (%(default)s)")
    parser.add_argument("--cache-dir", help="directory of pulled models")
    options = parser.parse_args(arguments)
    try:
        clips = read_manifest(options.manifest)
        device = TORCH_DEVICE.convert(options.device, owner=DETECT_COMMAND)
        scores = _import_score_clips()(
            options.model, clips, device=device, cache_dir=options.cache_dir
        )
        heads = choose(scores, options.model, clips=len(clips))
        options.output.write_text(heads.to_json(), encoding="utf-8")
    except (WLKError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 -- a command's own output
        return 1
    print(heads.to_json(), end="")  # noqa: T201 -- as above
    return 0


def _import_score_clips() -> Callable[..., Scores]:
    """Import torch and transformers; a broken installation of either can raise anything."""
    try:
        from wlk_qwen3_simul.detect_heads.clips import score_clips  # noqa: PLC0415 -- imports torch
    except Exception as error:
        raise BackendUnavailable(
            f"finding heads needs torch and transformers: {reason(error)}; "
            f"{QWEN3_SIMUL.requires['torch']}"
        ) from error
    return score_clips


if __name__ == "__main__":
    raise SystemExit(main())
