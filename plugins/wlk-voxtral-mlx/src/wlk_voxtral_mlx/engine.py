"""Voxtral Realtime on MLX as a step decoder, whoever's modules hold the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import mlx.core as mx

from wlk_core import WorkCounters
from wlk_core.streaming import TokenPrediction, speculative_decode
from wlk_voxtral.recognizer import silence_features
from wlk_voxtral_mlx.forward import Cache, EncoderState, decode, encode, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming import LogMel
    from wlk_voxtral.tokenizer import TekkenTokenizer
    from wlk_voxtral_mlx.commands import Commands
    from wlk_voxtral_mlx.shape import Shape

__all__ = ["StreamState", "VoxtralEngine"]

FRAMES = 8  # of mel in a step of 80 ms
LEAST_LEAD = 1e-3  # logits: a pass over several positions adds in another order than one over one
LEAST_LEAD_HALF = 0.25  # as above, in half precision or with packed weights


@attrs.frozen(kw_only=True, eq=False)
class StreamState:
    """
    A point of a run between two calls: plain values, evaluated, good in any thread.

    `given` are the inputs of the decoder known already: the rest of the prompt, or the last
    choice.
    """

    positions: int
    given: tuple[int, ...]
    encoder: EncoderState
    cache: Cache = ()

    @property
    def arrays(self) -> list[mx.array]:
        """Everything held."""
        return [*self.encoder.arrays, *(one for pair in self.cache for one in pair)]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def encoder_bytes(self) -> int:
        """Bytes of those that the encoder and its convolutions need."""
        return sum(array.nbytes for array in self.encoder.arrays)


class VoxtralEngine:
    """
    A loaded model that any number of streams share.

    It holds the weights and, for each delay in use, the state behind the silence that opens every
    run.
    """

    def __init__(
        self,
        model: Any,
        shape: Shape,
        *,
        tekken: TekkenTokenizer,
        log_mel: LogMel,
        commands: Commands,
    ) -> None:
        self._model = model
        self._shape = shape
        self._tekken = tekken
        self._log_mel = log_mel
        self._commands = commands
        self._openings: dict[int, StreamState] = {}
        norm = model.encoder.norm.weight
        is_exact = norm.dtype == mx.float32 and shape.quantization is None
        self._least_lead = LEAST_LEAD if is_exact else LEAST_LEAD_HALF

    def decode(
        self,
        mel: NDArray[np.float32],
        state: StreamState | None,
        *,
        delay_steps: int,
        draft_steps: int,
    ) -> tuple[Sequence[TokenPrediction], StreamState, WorkCounters]:
        """Hear float32[8 n, mels]; see wlk_core.StepEngine."""
        with self._commands.turn():
            opening = WorkCounters()
            if state is None:
                state, opening = self._opening(delay_steps)
            choices, state, work = self._run(mel, state, delay_steps, draft_steps)
            return choices, state, opening + work

    def _opening(self, delay_steps: int) -> tuple[StreamState, WorkCounters]:
        """Return the state behind all but the last step of the silence in front of a run."""
        if delay_steps in self._openings:
            return self._openings[delay_steps], WorkCounters()
        steps = max(self._tekken.left_pad_steps - 1, 0)
        state = StreamState(
            positions=0,
            given=self._tekken.prompt(delay_steps),
            encoder=EncoderState.at_start(self._model),
        )
        work = WorkCounters()
        if steps:
            mel = silence_features(self._log_mel, steps)
            _, state, work = self._run(mel, state, delay_steps, 1)
        self._openings[delay_steps] = state
        return state, work

    def _run(
        self, mel: NDArray[np.float32], state: StreamState, delay_steps: int, draft_steps: int
    ) -> tuple[list[TokenPrediction], StreamState, WorkCounters]:
        positions = len(mel) // FRAMES
        audio, encoder = encode(
            self._model,
            mx.array(mel),
            state.encoder,
            window=self._shape.encoder.window,
            downsampling=self._shape.downsampling,
        )
        decoder = _Pass(
            self._model,
            self._shape,
            state,
            audio,
            delay_steps=delay_steps,
            eos=self._tekken.eos_id,
            also=encoder.arrays,
        )
        choices = speculative_decode(
            decoder,
            positions,
            known_ids=state.given,
            pad=self._tekken.pad_id,
            marker=self._tekken.word_id,
            width=draft_steps,
            min_margin=self._least_lead,
        )
        after = StreamState(
            positions=state.positions + positions,
            given=state.given[positions:] or (choices[-1].id,),
            encoder=encoder,
            cache=decoder.cache,
        )
        # Nothing lazy survives the call: the next one may be another thread's.
        mx.eval(*after.arrays)
        work = WorkCounters(
            encoder_frames=len(mel),
            decoder_positions=decoder.ran,
            decoder_forwards=decoder.passes,
            host_syncs=decoder.passes,
        )
        return choices, after, work


class _Pass:
    """The decoder over steps whose audio is there; see StepModel."""

    def __init__(
        self,
        model: Any,
        shape: Shape,
        state: StreamState,
        audio: mx.array,
        *,
        delay_steps: int,
        eos: int,
        also: list[mx.array],
    ) -> None:
        self._model = model
        self._audio = audio
        self._condition = model.time_embedding(mx.array([delay_steps], dtype=mx.float32))
        self._window = shape.decoder.window
        self._also = also  # what is to be computed with the first choice
        self._is_end = mx.arange(shape.vocabulary) == eos
        self._first = state.positions
        self._kept = self._count = 0
        self._grown = self.cache = state.cache
        self.passes = self.ran = 0

    def forward(self, ids: Sequence[int]) -> list[TokenPrediction]:
        """Run the next positions; a stream never ends by itself."""
        self._count = len(ids)
        logits, self._grown = decode(
            self._model,
            self._audio[self._kept : self._kept + self._count],
            ids,
            self.cache,
            condition=self._condition,
            offset=self._first + self._kept,
            window=self._window,
        )
        self.cache = shortened(self._grown, 0, self._window)
        self._kept += self._count
        self.passes += 1
        self.ran += self._count
        told = _choices(mx.where(self._is_end, -mx.inf, logits))
        mx.eval(told, *self._also, *(one for pair in self.cache for one in pair))
        self._also = []
        rows: Any = told.tolist()
        return [TokenPrediction(int(token), min(1.0, share), ahead) for token, share, ahead in rows]

    def truncate(self, count: int) -> None:
        """Go back to behind the first *count* positions of the last pass."""
        dropped = self._count - count
        self.cache = shortened(self._grown, dropped, self._window)
        self._kept -= dropped


def _choices(logits: mx.array) -> mx.array:
    """Return float32[n, 3]: the most probable id, its probability and its lead in logits."""
    best = mx.argmax(logits, axis=-1, keepdims=True)
    top = mx.take_along_axis(logits, best, axis=-1)
    others = mx.where(mx.arange(logits.shape[-1]) == best, -mx.inf, logits)
    chance = mx.exp(top - mx.logsumexp(logits, axis=-1, keepdims=True))
    lead = top - others.max(axis=-1, keepdims=True)
    return mx.concatenate([best.astype(mx.float32), chance, lead], axis=-1)
