"""The bundled recording of the demo, with the words in it."""

from __future__ import annotations

from importlib.resources import files
import json
from pathlib import Path

import attrs

__all__ = ["Sample", "SampleWord", "demo_sample"]


@attrs.frozen
class SampleWord:
    """A word and where it ends, in seconds from the start of the recording."""

    text: str
    end: float


@attrs.frozen(kw_only=True)
class Sample:
    """A recording with known words."""

    path: Path
    words: tuple[SampleWord, ...]


def demo_sample() -> Sample:
    """Return the sample, spoken English digits."""
    folder = Path(str(files("wlk_core"))) / "cli" / "clip"
    description = json.loads((folder / "demo.json").read_text(encoding="utf-8"))
    words = tuple(SampleWord(word["text"], float(word["end"])) for word in description["words"])
    return Sample(path=folder / description["audio"], words=words)
