"""Run a Nemotron model of transformers for any number of streams."""

from __future__ import annotations

from collections import defaultdict
import threading
from typing import TYPE_CHECKING, Any

import attrs
import torch
from torch.nn import functional

from wlk_core.plugins import WorkCounters
from wlk_frameworks.torch import inference
from wlk_nemotron.engine.words import EmittedToken
from wlk_nemotron.torch.encoder import Encoder, PackedTensors, Paddings
from wlk_nemotron.torch.transducer import TransducerStates, decode_frames, initial_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from wlk_frameworks.kv_pool import KVCache
    from wlk_nemotron.checkpoint import CheckpointConfig
    from wlk_nemotron.engine.recognizer import ChunkAnswer, ChunkRequest
    from wlk_nemotron.torch.encoder import Layout

_OUTPUT, _HIDDEN, _CELL = "decoder.output", "decoder.hidden", "decoder.cell"


@attrs.frozen(kw_only=True, eq=False)
class TorchState:
    """The state of a stream between two chunks; see StreamState."""

    kv_cache: KVCache
    layout: Layout
    tensors: Tensor  #: [elements], the paddings and the state of the prediction network

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and tensors."""
        return self.kv_cache.nbytes + self.tensors.nbytes


class NemotronEngine:
    """
    A loaded model that any number of streams share.

    Args:
        model: a Nemotron3_5AsrForRNNT or a NemotronAsrStreamingForRNNT.
        extractor: its NemotronAsrStreamingFeatureExtractor.
        checkpoint: what its checkpoint declares.

    """

    def __init__(self, model: Any, extractor: Any, checkpoint: CheckpointConfig) -> None:
        self.model = model
        self.checkpoint = checkpoint
        self.encoder = Encoder(model.encoder)
        self._extractor = extractor
        window_dtype = getattr(torch, getattr(extractor, "mel_filters_dtype", "float32"))
        self._filters = extractor.mel_filters.to(model.device, window_dtype).float()
        self._window = torch.hann_window(extractor.win_length, periodic=False, device=model.device)
        self._window = self._window.to(window_dtype).float()
        self._lock = threading.Lock()

    def decode_batch(self, requests: Sequence[ChunkRequest]) -> list[ChunkAnswer]:
        """
        Decode the next chunks of several streams, those of equal shape in shared passes.

        The answers are those of each request alone, up to rounding.  If it raises, every request
        can be repeated.
        """
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            groups[request.chunk_frames, len(request.audio)].append(index)
        answers: dict[int, ChunkAnswer] = {}
        with self._lock, inference(self.model.device):
            for indices in groups.values():
                group = self._decode_group([requests[index] for index in indices])
                answers.update(zip(indices, group, strict=True))
        return [answers[index] for index in range(len(requests))]

    def _decode_group(self, requests: Sequence[ChunkRequest]) -> list[ChunkAnswer]:
        """Decode requests of equal shape; either all are the first of an utterance, or none is."""
        before, states = self._unpacked([request.state for request in requests])
        mel = self._log_mel(requests)
        paddings = Paddings(before)
        encoded, caches = self.encoder(
            mel,
            [
                self.encoder.pool.new_cache() if request.state is None else request.state.kv_cache
                for request in requests
            ],
            paddings,
            chunk_frames=requests[0].chunk_frames,
        )
        prompts = torch.tensor([request.prompt for request in requests], device=mel.device)
        rows = decode_frames(self.model, self._prompted(encoded, prompts), states)
        packed = PackedTensors.of(
            {
                **paddings.after,
                _OUTPUT: states.output,
                _HIDDEN: states.hidden,
                _CELL: states.cell,
            }
        )
        answers: list[ChunkAnswer] = []
        for request, row, cache, tensors in zip(
            requests, rows, caches, packed.values.unbind(), strict=True
        ):
            tokens = [
                EmittedToken(token_id, request.first_frame + frame, probability)
                for frame, token_id, probability in row.tokens
            ]
            # A copy: a view would keep the tensors of all rows as long as any one is in use.
            state = TorchState(kv_cache=cache, layout=packed.layout, tensors=tensors.clone())
            work = WorkCounters(
                encoder_frames=mel.shape[1],
                decoder_positions=row.positions,
                decoder_forwards=row.passes,
                host_syncs=row.passes,  # each pass reads its tokens
            )
            answers.append((tokens, state, work))
        return answers

    def _unpacked(
        self, states: Sequence[TorchState | None]
    ) -> tuple[dict[str, Tensor], TransducerStates]:
        """Return the paddings and the states of the prediction network for all rows."""
        if states[0] is None:
            return {}, initial_states(self.model, len(states))
        packed = PackedTensors(
            layout=states[0].layout,
            values=torch.stack([state.tensors for state in states if state is not None]),
        )
        tensors = packed.unpacked()
        # They are changed in place, but belong to a copy.
        states_of_rows = TransducerStates(
            output=tensors.pop(_OUTPUT), hidden=tensors.pop(_HIDDEN), cell=tensors.pop(_CELL)
        )
        return tensors, states_of_rows

    def _log_mel(self, requests: Sequence[ChunkRequest]) -> Tensor:
        """Return the log-mel features of all rows, [rows, mel frames, mels]; see the extractor."""
        extractor = self._extractor
        audio = torch.stack([torch.from_numpy(request.audio) for request in requests])
        audio = audio.to(self.model.device)
        if extractor.preemphasis is not None:
            # The first sample has none before it, but its weight in the window is zero.
            audio[:, 1:] -= extractor.preemphasis * audio[:, :-1].clone()
        spectrum = torch.stft(
            audio,
            extractor.n_fft,
            hop_length=extractor.hop_length,
            win_length=extractor.win_length,
            window=self._window,
            center=False,
            return_complex=True,
        )
        energies = self._filters @ torch.view_as_real(spectrum).square().sum(-1)
        return torch.log(energies + 2.0**-24).transpose(1, 2).to(self.model.dtype)

    def _prompted(self, encoded: Tensor, prompts: Tensor) -> Tensor:
        """Return the encoder frames for the joint network, with the requested language."""
        model = self.model
        if hasattr(model, "prompt_projector"):
            asked = functional.one_hot(prompts, model.config.num_prompts).to(encoded.dtype)
            asked = asked[:, None].expand(-1, encoded.shape[1], -1)
            encoded = model.prompt_projector(torch.cat((encoded, asked), -1))
        projected: Tensor = model.encoder_projector(encoded)
        return projected
