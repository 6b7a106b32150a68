"""The Network on torch: the modules of transformers, with the attention of some heads captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from wlk_frameworks.torch import inference
from wlk_qwen3_simul.engine.frames import token_count
from wlk_qwen3_simul.engine.mel import padded_second
from wlk_qwen3_simul.engine.network import DecoderOutput, EncodedWindow, heads_by_layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from transformers import Qwen3ASRForConditionalGeneration

ATTENTION_NAME = "wlk_qwen3_simul"
BLOCK = 256  # positions by which a buffer grows


@attrs.define(eq=False)
class AttentionCapture:
    """
    The heads and positions to capture in one forward, and the captured attention.

    A capture is an argument of one forward, so that nothing of a stream is stored on the model.

    Attributes:
        heads: int64[k] for each layer that has alignment heads.
        rows: number of last positions to capture.
        audio: the positions of the audio tokens, as (start, end).
        weights: captured float32[k, rows, audio] of each layer: a softmax over the audio alone.
        masses: captured float32[k, rows] of each layer: the share of attention to the audio.

    """

    heads: Mapping[int, torch.Tensor]
    rows: int
    audio: tuple[int, int]
    weights: list[torch.Tensor] = attrs.Factory(list)
    masses: list[torch.Tensor] = attrs.Factory(list)

    def capture(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, *, scaling: float
    ) -> None:
        """Capture the heads of *layer* from its [1, heads, positions, size] queries and keys."""
        heads = self.heads.get(layer)
        if heads is None:
            return
        group = query.shape[1] // key.shape[1]
        queries = query[0, heads, -self.rows :].float()
        keys = key[0, torch.div(heads, group, rounding_mode="floor")].float()
        scores = queries @ keys.transpose(1, 2) * scaling
        positions = torch.arange(key.shape[2], device=key.device)
        is_later = positions[None, :] > positions[-self.rows :, None]
        scores = scores.masked_fill(is_later, -torch.inf)
        audio = scores[..., self.audio[0] : self.audio[1]]
        self.weights.append(audio.softmax(dim=-1))
        self.masses.append((audio.logsumexp(dim=-1) - scores.logsumexp(dim=-1)).exp())


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    attention_capture: AttentionCapture | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend with transformers' own SDPA attention, and fill *attention_capture* if given."""
    if attention_capture is not None:
        attention_capture.capture(module.layer_idx, query, key, scaling=options["scaling"])
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, None


def register_attention() -> None:
    """
    Register the attention with transformers as ATTENTION_NAME.

    Its mask function is registered with it: otherwise transformers builds no mask, and several
    positions that follow cached ones would attend to later positions.
    """
    AttentionInterface.register(ATTENTION_NAME, _attention)
    AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)


class TorchKVCache:
    """
    A KV cache with the interface of transformers' caches; see KVCache.

    A forward writes after `length`, which the network advances only once the forward is complete.
    """

    def __init__(self) -> None:
        self.length = 0  #: positions held
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers, which are as long as the longest forward and never shrink."""
        return sum(keys.nbytes + values.nbytes for keys, values in self._layers.values())

    def truncate(self, length: int) -> None:
        """Drop all but the first *length* positions."""
        self.length = min(self.length, length)

    def update(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        layer_idx: int,
        *_: object,
        **_options: object,  # since transformers 5.24
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write [1, heads, new, size] after the held positions; return held and new together."""
        end = self.length + keys.shape[2]
        buffers = self._layers.get(layer_idx)
        if buffers is None or buffers[0].shape[2] < end:
            buffers = (self._grow(buffers, 0, keys, end), self._grow(buffers, 1, values, end))
            self._layers[layer_idx] = buffers
        for buffer, new in zip(buffers, (keys, values), strict=True):
            buffer[:, :, self.length : end] = new
        return buffers[0][:, :, :end], buffers[1][:, :, :end]

    def _grow(
        self, buffers: Sequence[torch.Tensor] | None, index: int, new: torch.Tensor, end: int
    ) -> torch.Tensor:
        """Return a buffer of whole blocks for *end* positions, with the held ones copied."""
        positions = -(-end // BLOCK) * BLOCK
        grown = new.new_empty((new.shape[0], new.shape[1], positions, new.shape[3]))
        if buffers is not None:
            grown[:, :, : self.length] = buffers[index][:, :, : self.length]
        return grown


class TorchNetwork:
    """A Qwen3-ASR on torch, shared by all streams and never changed; see Network."""

    def __init__(
        self,
        model: Qwen3ASRForConditionalGeneration,
        *,
        alignment_heads: Sequence[tuple[int, int]],
    ) -> None:
        self._model: Any = model
        config: Any = model.config
        self.mel_bands = int(config.audio_config.num_mel_bins)
        self.window_frames = int(config.audio_config.n_window_infer)
        self.vocabulary_size = int(config.text_config.vocab_size)
        self._heads = {
            layer: torch.tensor(heads, device=self._model.device)
            for layer, heads in heads_by_layer(alignment_heads).items()
        }

    def convolve(self, features: NDArray[np.float32]) -> torch.Tensor:
        """Convolve the frames of at most one second; see Network."""
        encoder = self._model.model.audio_tower
        with torch.inference_mode():
            states = torch.from_numpy(padded_second(features))[None, None].to(
                self._model.device, self._model.dtype
            )
            for convolution in (encoder.conv2d1, encoder.conv2d2, encoder.conv2d3):
                states = functional.gelu(convolution(states))
            states = encoder.conv_out(states.permute(0, 3, 1, 2).flatten(2))[0]
            positions = encoder.positional_embedding.positional_embedding[: len(states)]
            output: torch.Tensor = states + positions.to(states.dtype)
            return output[: token_count(features.shape[1])].clone()

    def encode(self, seconds: Sequence[torch.Tensor]) -> EncodedWindow:
        """Encode the seconds of at most one window."""
        encoder = self._model.model.audio_tower
        with inference(self._model.device):
            states = torch.cat(list(seconds))
            boundaries = torch.tensor([0, len(states)], dtype=torch.int32)
            for layer in encoder.layers:
                states = layer(states, boundaries, max_seqlen=len(states))[0]
            states = encoder.ln_post(states)
            return EncodedWindow(self._model.model.multi_modal_projector(states))

    def new_kv_cache(self) -> TorchKVCache:
        """Return an empty KV cache."""
        return TorchKVCache()

    def forward(
        self,
        kv_cache: TorchKVCache,
        parts: Sequence[EncodedWindow | Sequence[int]],
        *,
        rows: int,
        audio: tuple[int, int],
        among: Sequence[int] = (),
    ) -> DecoderOutput:
        """Run the decoder over *parts*, with one transfer to the host; see Network."""
        decoder = self._model.model.language_model
        with inference(self._model.device):
            embedded = torch.cat([self._embed(part) for part in parts])[None]
            cached, new = kv_cache.length, embedded.shape[1]
            mask = None
            if cached and new > 1:
                mask = torch.ones(new, cached + new, dtype=torch.bool, device=self._model.device)
                mask = mask.tril(diagonal=cached)[None, None]
            capture = AttentionCapture(self._heads, rows, audio)
            # Positional arguments: transformers 5.24 renamed `past_key_values` to `cache`.
            states = decoder(
                None,  # no ids: the parts are embedded above
                {"full_attention": mask},
                torch.arange(cached, cached + new, device=self._model.device)[None],
                kv_cache,
                embedded,
                use_cache=True,
                attention_capture=capture,
            ).last_hidden_state[0, -rows:]
            logits = self._model.lm_head(states).float()
            if among:
                allowed = torch.tensor(among, device=self._model.device)
                best, places = logits[:, allowed].max(dim=-1)
                ids = allowed[places]
            else:
                best, ids = logits.max(dim=-1)
            columns = [
                ids.float()[:, None],
                (best - logits.logsumexp(dim=-1))[:, None],
                torch.cat(capture.masses).mean(dim=0)[:, None],
                torch.cat(capture.weights).mean(dim=0),
            ]
            packed = torch.cat(columns, dim=1).cpu().numpy()
        kv_cache.length = cached + new
        return DecoderOutput.from_packed(packed)

    def _embed(self, part: EncodedWindow | Sequence[int]) -> torch.Tensor:
        if isinstance(part, EncodedWindow):
            window: torch.Tensor = part.embeddings
            return window
        ids = torch.tensor(part, dtype=torch.long, device=self._model.device)
        embedded: torch.Tensor = self._model.model.language_model.embed_tokens(ids)
        return embedded
