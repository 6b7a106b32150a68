"""The speakers of a training as a mixer: recorded, disguised and synthetic voices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disguise import load_disguised
from mixing import Mixer
import numpy as np
from recordings import load_recordings
from voices import load_voices

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load_mixer"]


def load_mixer(
    recordings: Path, rendered: Path, disguised: Path | None, *, without: str | None, seed: int
) -> Mixer:
    """Load what may be trained on.

    Args:
        recordings: folder of `{digit}_{speaker}_{take}.wav` files.
        rendered: what voices.py made.
        disguised: what disguise.py made, or None.
        without: a speaker to leave out, disguises included.
        seed: of all that the mixer draws.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    voices, others = load_voices(rendered)
    voices += load_recordings(recordings, held_out=False, without=without)
    if disguised is not None:
        voices += load_disguised(disguised, without=without)
    return Mixer(voices=voices, others=others, rng=np.random.default_rng(seed))
