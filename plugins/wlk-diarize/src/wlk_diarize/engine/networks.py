"""Run the two networks of `clustering` on ONNX Runtime: segmentation and speaker embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import kaldi_native_fbank
import numpy as np
import onnxruntime

from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Audio = NDArray[np.float32]

FRAME_SAMPLES = 270  # from one frame of segmentation-3.0 to the next: strides of 10 x 3 x 3 x 3
MIN_SAMPLES = 4_000  # the shortest audio to give to the networks: 0.25 s
_RECEPTIVE_SAMPLES = 991  # the receptive field of a frame of segmentation-3.0
_MEL_BINS = 80  # of CAM++

#: The powerset classes of segmentation-3.0 (Plaquet and Bredin, 2023): which of three speakers
#: are speaking, at most two at a time.
_CLASSES = np.array(
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=np.bool_
)
LOCAL_SPEAKERS = _CLASSES.shape[1]


class Networks(Protocol):
    """The networks that the diarizer needs; streams share them and call them from any thread."""

    def segment(self, audio: Audio) -> NDArray[np.bool_]:
        """Return which of three speakers are speaking: bool[len(audio) // FRAME_SAMPLES, 3]."""
        ...

    def embed(self, audio: Audio) -> Audio:
        """Return the embedding of the only speaker in *audio*: float32[d] of length 1."""
        ...


class OnnxNetworks:
    """
    Pyannote's segmentation-3.0 and a speaker embedding of the 3D-Speaker or WeSpeaker family.

    The segmentation takes float32[1, 1, n] at 16 kHz and returns scores [1, frames, 7]; see
    huggingface.co/pyannote/segmentation-3.0.  The embedding takes Kaldi's filter bank features
    float32[1, frames, 80] minus their mean, and returns [1, d], as CAM++ does (Wang et al., 2023,
    arXiv:2303.00332).  The names of inputs and outputs do not matter.

    Raises:
        ModelNotFoundError: a file does not contain such a model.

    """

    def __init__(self, segmentation: Path, embedding: Path) -> None:
        self._segmentation = _open(segmentation, (1, 1, 10 * SAMPLE_RATE), classes=len(_CLASSES))
        self._embedding = _open(embedding, (1, 200, _MEL_BINS))
        self._options = kaldi_native_fbank.FbankOptions()
        self._options.frame_opts.samp_freq = SAMPLE_RATE
        self._options.frame_opts.dither = 0.0
        self._options.mel_opts.num_bins = _MEL_BINS

    def segment(self, audio: Audio) -> NDArray[np.bool_]:
        """Return which of three speakers are speaking: bool[len(audio) // FRAME_SAMPLES, 3]."""
        scores = _run(self._segmentation, audio[None, None])[0]
        # Frames are centred in their receptive fields; the outermost are repeated to fill the ends.
        before = round((_RECEPTIVE_SAMPLES / 2) / FRAME_SAMPLES)
        after = max(0, len(audio) // FRAME_SAMPLES - before - len(scores))
        active = np.pad(_CLASSES[scores.argmax(axis=1)], ((before, after), (0, 0)), mode="edge")
        return active[: len(audio) // FRAME_SAMPLES]

    def embed(self, audio: Audio) -> Audio:
        """Return the embedding of the only speaker in *audio*: float32[d] of length 1."""
        bank = kaldi_native_fbank.OnlineFbank(self._options)
        bank.accept_waveform(SAMPLE_RATE, audio)
        bank.input_finished()
        features = np.stack([bank.get_frame(frame) for frame in range(bank.num_frames_ready)])
        embedding: Audio = _run(self._embedding, (features - features.mean(axis=0))[None])[0]
        return embedding / max(float(np.linalg.norm(embedding)), 1e-9)


def _open(path: Path, shape: tuple[int, ...], classes: int | None = None) -> Any:
    """Open a model, and check that it accepts *shape* and has the expected output."""
    options = onnxruntime.SessionOptions()
    # One thread: a server runs many streams at once, and one call takes 20 ms.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: warnings are about the export of the model
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        output = _run(session, np.zeros(shape, np.float32)).shape
    except Exception as error:  # ONNX Runtime has no common class for its errors
        raise ModelNotFoundError(
            f"{path} is not a model that takes float32{list(shape)}: {error}; give a folder with "
            "segmentation.onnx and embedding.onnx, or leave the model out for the published ones"
        ) from error
    if classes is None:
        expected, dimensions = "[1, d]", 2
    else:
        expected, dimensions = f"[1, frames, {classes}]", 3
    is_expected = len(output) == dimensions and classes in (None, output[-1])
    if not is_expected:
        raise ModelNotFoundError(f"{path}: expected an output of {expected}, got {list(output)}")
    return session


def _run(session: Any, value: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the first output of a model with a single input."""
    result: NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: value})[0]
    return result
