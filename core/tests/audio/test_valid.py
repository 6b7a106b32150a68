"""Audio that is validated and copied once, at the entrance."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core.audio.convert import valid_copy
from wlk_core.errors import AudioFormatError


@pytest.mark.parametrize(
    "change",
    [
        lambda audio: audio * np.float32(np.inf),
        lambda audio: audio.reshape(2, 5),
        lambda audio: audio.view(np.int32),
        lambda audio: np.concatenate((audio, [np.nan]), dtype=np.float32),
    ],
    ids=["computed", "two dimensions", "other samples", "joined"],
)
def test_what_is_made_of_valid_audio_is_validated_again(change):
    """Only slices of it stay valid."""
    with pytest.raises(AudioFormatError):
        valid_copy(change(valid_copy(np.ones(10, dtype=np.float32))))
