"""Whisper's layers on torch: the Network protocol over the modules of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wlk_whisper.engine.network import ALONE, EncoderPass, Rounding
from wlk_whisper.torch.batch import TorchBatch
from wlk_whisper.torch.encoder import TorchEncoder
from wlk_whisper.torch.layers import AttendingHeads

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import WhisperForConditionalGeneration

    from wlk_whisper.engine.alignment_heads import Heads
    from wlk_whisper.torch.batch import TorchDecoder, TorchEncoderOutput

__all__ = ["TorchNetwork"]

# Common passes differ from passes alone by 1.3e-5 logits and by 1.2e-5 of an attention weight at
# most, measured with 8 streams of the digits model.  In float16 and bfloat16 that is 0.5 logits
# and 10 %, so that half of the calls would be made again.
ROUNDING = Rounding(margin=1e-3, attention=1e-4)


class TorchNetwork:
    """
    A Whisper on torch, shared by all streams; see BatchNetwork.

    The modules are never changed.  Their layers are called one by one here, because transformers'
    own forward pass returns no attention from a fused kernel.
    """

    def __init__(self, whisper: WhisperForConditionalGeneration, *, alignment_heads: Heads) -> None:
        self._whisper: Any = whisper
        self._heads = AttendingHeads(alignment_heads)
        self.alignment_heads = alignment_heads
        self.encoder = TorchEncoder(whisper)
        self.n_mels = int(self._whisper.config.num_mel_bins)
        self.n_vocab = int(self._whisper.config.vocab_size)
        self.n_text_ctx = int(self._whisper.config.max_target_positions)
        self.device: torch.device = self._whisper.device
        self.dtype: torch.dtype = self._whisper.dtype

    def encode(
        self, features: NDArray[np.float32], *, is_padded: bool = False
    ) -> TorchEncoderOutput:
        """Encode float32[mels, frames] in a batch of its own; see `TorchEncoder.encode`."""
        item = EncoderPass(features=features, is_padded=is_padded)
        return self._new_batch(ALONE).encode([item])[0]

    def new_decoder(self, encoder_output: TorchEncoderOutput) -> TorchDecoder:
        """Return a decoder of one row without tokens."""
        return encoder_output.batch.new_decoder(encoder_output)

    def new_batch(self) -> TorchBatch | None:
        """Return what runs several streams together; None in half precision."""
        return self._new_batch(ROUNDING) if self.dtype == torch.float32 else None

    def _new_batch(self, rounding: Rounding) -> TorchBatch:
        return TorchBatch(self._whisper, self.encoder, heads=self._heads, rounding=rounding)
