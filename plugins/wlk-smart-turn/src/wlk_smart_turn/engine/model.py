"""Compute the features of smart-turn v3, and run the model on ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError
from wlk_frameworks.features import LogMel

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TURN_SAMPLES = 8 * SAMPLE_RATE  # the length that smart-turn v3 was trained on
FRAMES = 800  # mel frames of that audio, 100 per second
_BANDS = 80
_HALF_WINDOW = 200  # samples reflected at both ends, so that frames are centred
_LEAST_VARIANCE = 1e-7  # added to the variance of the audio, as in WhisperFeatureExtractor
_RANGE = 8.0 / 4.0  # 8 decades below the maximum, scaled; quieter values are raised to that floor

# This ceiling puts the floor at 1e-10, Whisper's lowest energy; the floor relative to the loudest
# value of the window is applied afterwards.
_log_mel = LogMel(mels=_BANDS, ceiling=-2.0)


def features(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    """
    Return float32[80, 800]: Whisper's log-mel of float32[128000], scaled to mean 0, variance 1.

    These are the features of `transformers.WhisperFeatureExtractor(chunk_length=8)` with
    `do_normalize`, on which smart-turn v3 was trained.
    """
    audio = (audio - audio.mean()) / np.sqrt(audio.var() + np.float32(_LEAST_VARIANCE))
    frames = _log_mel(np.pad(audio, _HALF_WINDOW, mode="reflect"))[:FRAMES]
    floored: NDArray[np.float32] = np.maximum(frames, frames.max() - np.float32(_RANGE))
    return floored.T


class OnnxModel:
    """
    A model of the smart-turn v3 family; streams share it and call it from any thread.

    It takes the features float32[1, 80, 800] and returns the probability that the turn is over,
    float32[1, 1]; see huggingface.co/pipecat-ai/smart-turn-v3.

    Raises:
        ModelNotFoundError: the file does not contain such a model.

    """

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        # One thread: a server runs many streams at once, and one call takes 40 ms.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only: warnings are about the export of the model
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            output = self._run(np.zeros((_BANDS, FRAMES), np.float32))
        except Exception as error:  # ONNX Runtime has no common class for its errors
            reason = str(error).partition("\n")[0]
            raise ModelNotFoundError(
                f"{path} is not a model that takes float32[1, {_BANDS}, {FRAMES}]: {reason}; leave "
                "the model out for the published one"
            ) from error
        if output.shape != (1, 1) or not 0 <= output.item() <= 1:
            raise ModelNotFoundError(
                f"{path}: expected a probability of shape [1, 1], got {output.ravel()[:3]} of "
                f"shape {list(output.shape)}"
            )

    def __call__(self, mel: NDArray[np.float32]) -> float:
        """Return the probability that the turn with features float32[80, 800] is over."""
        return float(self._run(mel).item())

    def _run(self, mel: NDArray[np.float32]) -> NDArray[np.float32]:
        name = self._session.get_inputs()[0].name
        result: NDArray[Any] = self._session.run(None, {name: mel[None]})[0]
        return result
