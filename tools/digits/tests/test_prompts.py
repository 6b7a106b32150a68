from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from prompts import collect
from recordings import load_recordings
from scipy.io import wavfile

if TYPE_CHECKING:
    from pathlib import Path


def test_prompts_become_recordings_to_train_on(tmp_path: Path) -> None:
    """Eight bits or sixteen: two speakers speak ten digits, and silence stays silence."""
    tone = np.sin(np.arange(2400) / 8000 * 2 * np.pi * 200)
    tone[:800] = 0
    (tmp_path / "asterisk/digits").mkdir(parents=True)
    for digit in range(10):
        wavfile.write(
            tmp_path / f"asterisk/digits/{digit}.wav", 8000, (tone * 9000).astype(np.int16)
        )
        (tmp_path / f"captcha/{digit}").mkdir(parents=True)
        wavfile.write(
            tmp_path / f"captcha/{digit}/default.wav", 8000, (tone * 100 + 128).astype(np.uint8)
        )

    written = list(collect(tmp_path / "asterisk", tmp_path / "captcha", tmp_path / "prompts"))
    voices = load_recordings(tmp_path / "prompts", held_out=False)

    assert len(written) == 20
    assert sorted(voice.name for voice in voices) == ["allison", "captcha"]
    lengths = {len(take) / 16_000 for voice in voices for (take,) in voice.takes}
    assert all(0.19 < length < 0.23 for length in lengths)
