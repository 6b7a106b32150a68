"""Decode the steps of a Voxtral model, whatever framework runs its network."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from wlk_core.plugins import WorkCounters
from wlk_voxtral.network import DecoderRow, EncoderRow
from wlk_voxtral.recognizer import silence_features
from wlk_voxtral.speculative import SpeculativeDecoding, TokenPrediction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_voxtral.checkpoint import CheckpointConfig
    from wlk_voxtral.network import Cache, ForwardPass, Network


@attrs.frozen(kw_only=True, eq=False)
class StreamState:
    """
    The state of an utterance between two calls: never changed, so that a call can be repeated.

    `known_ids` are the decoder inputs known before the next forward pass: the rest of the prompt,
    or the last prediction.
    """

    positions: int = 0  #: decoder positions so far
    known_ids: tuple[int, ...]
    encoder_cache: Cache | None = None
    kv_cache: Cache | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of both caches."""
        caches = (self.encoder_cache, self.kv_cache)
        return sum(cache.nbytes for cache in caches if cache is not None)


#: the predictions, the new state and the work of a request
DecodeAnswer: TypeAlias = tuple["Sequence[TokenPrediction]", StreamState, WorkCounters]


@attrs.frozen(kw_only=True, eq=False)
class DecodeRequest:
    """
    The next n steps of an utterance; see StepDecoder.

    Attributes:
        mel: float32[8 n, mels], the mel frames of the steps.
        state: the state returned by the last call; None at the start of an utterance.
        delay_steps: number of steps between audio and its text, constant in an utterance.
        draft_steps: the most steps to decode in one forward pass.

    """

    mel: NDArray[np.float32]
    state: StreamState | None
    delay_steps: int
    draft_steps: int


class VoxtralEngine:
    """
    A loaded model that any number of streams share.

    It holds the network and, for each delay in use, the state after the silence that opens every
    utterance.  The caches of a stream are in its StreamState.
    """

    def __init__(self, network: Network, checkpoint: CheckpointConfig) -> None:
        self.network = network
        self.checkpoint = checkpoint
        self._openings: dict[int, StreamState] = {}
        self._lock = threading.Lock()

    def decode(
        self,
        mel: NDArray[np.float32],
        state: StreamState | None,
        *,
        delay_steps: int,
        draft_steps: int,
    ) -> DecodeAnswer:
        """Decode float32[8 n, mels], the next n steps of an utterance; see DecodeRequest."""
        request = DecodeRequest(
            mel=mel, state=state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        return self.decode_batch([request])[0]

    def decode_batch(self, requests: Sequence[DecodeRequest]) -> list[DecodeAnswer]:
        """
        Decode the next steps of several utterances, in shared passes if the network supports them.

        The answers are those of `decode`.  If it raises, every request can be repeated.
        """
        with self.network.running():
            openings = [
                (request.state, WorkCounters())
                if request.state is not None
                else self._opening(request.delay_steps)
                for request in requests
            ]
            answers = self._decode(requests, [state for state, _ in openings])
            return [
                (predictions, state, opening + work)
                for (predictions, state, work), (_, opening) in zip(answers, openings, strict=True)
            ]

    def _opening(self, delay_steps: int) -> tuple[StreamState, WorkCounters]:
        """Return the state after all but the last step of the silence before an utterance."""
        with self._lock:  # the first stream with a delay computes it for all others
            if delay_steps in self._openings:
                return self._openings[delay_steps], WorkCounters()
            tokenizer = self.checkpoint.tokenizer
            state: StreamState = StreamState(known_ids=tokenizer.prompt(delay_steps))
            work = WorkCounters()
            if tokenizer.left_pad_steps > 1:
                request: DecodeRequest = DecodeRequest(
                    mel=silence_features(self.checkpoint.log_mel, tokenizer.left_pad_steps - 1),
                    state=None,
                    delay_steps=delay_steps,
                    draft_steps=1,
                )
                ((_, state, work),) = self._decode([request], [state])
            self._openings[delay_steps] = state
            return state, work

    def _decode(
        self, requests: Sequence[DecodeRequest], states: Sequence[StreamState]
    ) -> list[DecodeAnswer]:
        """Decode *requests*, each from its state in *states*."""
        tokenizer = self.checkpoint.tokenizer
        encoder_rows = [
            EncoderRow(mel=request.mel, cache=state.encoder_cache, delay_steps=request.delay_steps)
            for request, state in zip(requests, states, strict=True)
        ]
        encoded = self.network.encode_batch(encoder_rows)
        rows: list[_RowDecoder] = []
        for request, state, encoder_row, (audio, _) in zip(
            requests, states, encoder_rows, encoded, strict=True
        ):
            decoding = SpeculativeDecoding(
                encoder_row.steps,
                known_ids=state.known_ids,
                pad=tokenizer.pad_id,
                marker=tokenizer.word_id,
                width=request.draft_steps,
                min_margin=self.network.min_margin,
            )
            rows.append(
                _RowDecoder(audio, state.kv_cache, position=state.positions, decoding=decoding)
            )
        _decode_rows(self.network, rows)
        answers: list[DecodeAnswer] = []
        for state, encoder_row, (_, encoder_cache), row in zip(
            states, encoder_rows, encoded, rows, strict=True
        ):
            predictions = row.decoding.predictions
            new_state = StreamState(
                positions=state.positions + encoder_row.steps,
                known_ids=state.known_ids[encoder_row.steps :] or (predictions[-1].id,),
                encoder_cache=encoder_cache,
                kv_cache=row.kv_cache,
            )
            work = WorkCounters(
                encoder_frames=len(encoder_row.mel),
                decoder_positions=row.positions,
                decoder_forwards=row.passes,
                host_syncs=row.passes,  # each pass reads its predictions
            )
            answers.append((predictions, new_state, work))
        return answers


class _RowDecoder:
    """The progress of decoding one request, from pass to pass of the network."""

    def __init__(
        self, audio: Any, kv_cache: Any, *, position: int, decoding: SpeculativeDecoding
    ) -> None:
        self._audio = audio
        self._position = position
        self._kept = 0  # steps of this call in the KV cache
        self.decoding = decoding
        self.kv_cache = kv_cache
        self.passes = self.positions = 0

    def next_row(self) -> DecoderRow:
        """Return the arguments of the next pass."""
        return DecoderRow(
            token_ids=self.decoding.next_ids(),
            audio=self._audio,
            first=self._kept,
            kv_cache=self.kv_cache,
            position=self._position + self._kept,
        )

    def accept(self, forward: ForwardPass, *, is_wide: bool) -> None:
        """Apply the outcome of the pass to this row; see SpeculativeDecoding."""
        width = len(forward.predictions)
        kept = self.decoding.accept(forward.predictions, is_wide=is_wide)
        self.kv_cache = forward.kv_cache if kept == width else forward.truncated(kept)
        self._kept += kept
        self.passes += 1
        self.positions += width


def _decode_rows(network: Network, rows: Sequence[_RowDecoder]) -> None:
    """
    Decode all steps of each row; each pass runs the next positions of all rows.

    A prediction with too small a margin in a pass with other positions is recomputed alone.
    """
    while waiting := [row for row in rows if not row.decoding.is_complete]:
        together = [row for row in waiting if not row.decoding.is_alone]
        for group in (together, *([row] for row in waiting if row.decoding.is_alone)):
            if not group:
                continue
            inputs = [row.next_row() for row in group]
            is_wide = sum(len(row.token_ids) for row in inputs) > 1
            for row, forward in zip(group, network.forward_batch(inputs), strict=True):
                row.accept(forward, is_wide=is_wide)


def cut_answer(answer: DecodeAnswer, share: float, *, pad_id: int) -> DecodeAnswer:
    """Return the answer of `decode` as if no text had come after the first *share* of its steps."""
    predictions, state, work = answer
    if not predictions:
        return answer  # the prompt is not complete, and its rest must stay in known_ids
    kept = int(share * len(predictions))
    quiet = [attrs.evolve(prediction, id=pad_id) for prediction in predictions[kept:]]
    return [*predictions[:kept], *quiet], attrs.evolve(state, known_ids=(pad_id,)), work


def predictions_of(rows: Iterable[Sequence[float]]) -> list[TokenPrediction]:
    """Convert rows read from a device, each with id, probability and margin, to predictions."""
    return [
        TokenPrediction(int(token_id), min(1.0, probability), margin)
        for token_id, probability, margin in rows
    ]
