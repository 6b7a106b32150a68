"""Run Nemotron 3 Diarization on transformers, for any number of streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file
import torch
import transformers

from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError
from wlk_core.untrusted import reason
from wlk_diarize.engine.sortformer import FFT, HOP, STACKED
from wlk_frameworks.torch import inference

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_diarize.engine.sortformer import Floats


class TorchNetwork:
    """
    The network in a checkpoint directory; transformers' speaker cache is the state of a stream.

    Raises:
        ModelNotFoundError: the files are damaged, or their weights do not match the model.

    """

    def __init__(self, directory: Path, device: torch.device, dtype: torch.dtype) -> None:
        try:
            self._model, self._extractor = _load(directory, device, dtype)
        except Exception as error:
            raise ModelNotFoundError(
                f"{directory} could not be loaded as a Nemotron 3 Diarization of transformers: "
                f"{reason(error)}; pull the model again"
            ) from error
        self._lock = threading.Lock()  # concurrent passes are not faster, and need more memory

    def score(self, audio: Floats, state: Any, look_ahead: int) -> tuple[Floats, Any, int]:
        """Return the probabilities, the next state, and the frames encoded; see `Network`."""
        features = self._extractor(
            audio,
            sampling_rate=SAMPLE_RATE,
            center=False,
            is_last_audio_chunk=look_ahead == 0,
            return_tensors="pt",
        ).input_features
        encoded = -(-features.shape[1] // STACKED)
        if state is not None:
            encoded += state.num_cache_frames + state.num_fifo_frames
        with self._lock, inference(self._model.device):
            output = self._model(
                features.to(self._model.device, self._model.dtype),
                speaker_cache=state,
                num_lookahead_frames=look_ahead,
            )
            probabilities = output.logits[0].float().sigmoid().cpu().numpy()
        return probabilities, output.speaker_cache, encoded * STACKED


def _load(directory: Path, device: torch.device, dtype: torch.dtype) -> tuple[Any, Any]:
    """Return the model, with all weights loaded, and its feature extractor."""
    library: Any = transformers  # its types are incomplete
    config = library.AutoConfig.from_pretrained(directory, trust_remote_code=False)
    if config.model_type != "nemotron3_diarization":
        raise ValueError(f"its model_type is {config.model_type}")
    extractor = library.AutoFeatureExtractor.from_pretrained(directory)
    audio = config.audio_config
    frames = extractor.feature_size, extractor.hop_length, extractor.n_fft, audio.subsampling_factor
    if frames != (audio.num_mel_bins, HOP, FFT, STACKED):
        raise ValueError(f"unsupported mel bins, hop, FFT size and stacking, {frames}")
    with torch.device("meta"):  # needs no memory, however large a model the config declares
        model = library.AutoModelForAudioFrameClassification.from_config(config)
    weights = load_file(directory / "model.safetensors")
    model.load_state_dict(
        {name: weight.to(device, dtype) for name, weight in weights.items()}, assign=True
    )
    tower = model.model.audio_tower  # its rotary frequencies are computed, and stay float32
    tower.rotary_emb = type(tower.rotary_emb)(audio).to(device)
    return model.eval().requires_grad_(False), extractor
