"""Decode a transducer greedily over the encoder frames of several streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

BLOCK_FRAMES = 16  # frames scored at a time, to bound the memory of scores over the vocabulary


@attrs.define(eq=False)
class TransducerStates:
    """The state of the prediction network for each row: its output, and the state of its LSTM."""

    output: Tensor  #: [rows, width]
    hidden: Tensor  #: [rows, layers, width]
    cell: Tensor  #: [rows, layers, width]

    def advance(self, decoder: Any, rows: Tensor, ids: Tensor) -> None:
        """Feed the next tokens *ids* of some *rows*, both int64[n]."""
        embedded = decoder.embedding(ids)[:, None]
        before = tuple(
            state[rows].transpose(0, 1).contiguous() for state in (self.hidden, self.cell)
        )
        output, (hidden, cell) = decoder.lstm(embedded, before)
        self.output[rows] = decoder.decoder_projector(output)[:, 0]
        self.hidden[rows] = hidden.transpose(0, 1)
        self.cell[rows] = cell.transpose(0, 1)


@attrs.define(eq=False)
class DecodedRow:
    """The tokens decoded in a row so far, and the work for them."""

    tokens: list[tuple[int, int, float]] = attrs.field(factory=list)  #: frame, id, probability
    next_frame: int = 0
    symbols: int = 0  #: emitted at `next_frame` so far
    passes: int = 0
    positions: int = 0


def initial_states(model: Any, rows: int) -> TransducerStates:
    """Return the states before the first token, which are those after a blank."""
    config, like = model.config, model.decoder.embedding.weight
    width, layers = config.decoder_hidden_size, config.num_decoder_layers
    states = TransducerStates(
        like.new_zeros(rows, width),
        like.new_zeros(rows, layers, width),
        like.new_zeros(rows, layers, width),
    )
    all_rows = torch.arange(rows, device=like.device)
    states.advance(model.decoder, all_rows, torch.full_like(all_rows, config.blank_token_id))
    return states


def decode_frames(model: Any, frames: Tensor, states: TransducerStates) -> list[DecodedRow]:
    """
    Return the most probable tokens of each row at each frame, up to a blank.

    A token advances the state of its row and stays at its frame; a blank moves on to the next
    frame, and so do `max_symbols_per_step` tokens (Graves, "Sequence Transduction with Recurrent
    Neural Networks", 2012).  A blank changes no state, so all frames up to the next token are
    scored in one pass.

    Args:
        model: a transducer with `joint` and `decoder`.
        frames: [rows, frames, width].
        states: the states of the rows, changed in place.

    """
    decoded = [DecodedRow() for _ in range(len(frames))]
    for start in range(0, frames.shape[1], BLOCK_FRAMES):
        end = min(start + BLOCK_FRAMES, frames.shape[1])
        _decode_block(model, frames, states, decoded, end)
    return decoded


def _decode_block(
    model: Any, frames: Tensor, states: TransducerStates, decoded: Sequence[DecodedRow], end: int
) -> None:
    """Decode the frames of each row up to *end*."""
    while waiting := [number for number, row in enumerate(decoded) if row.next_frame < end]:
        first = min(decoded[number].next_frame for number in waiting)
        rows = torch.tensor(waiting, device=frames.device)
        starts = torch.tensor(
            [decoded[number].next_frame - first for number in waiting], device=frames.device
        )
        scores = model.joint(
            encoder_hidden_states=frames[rows, first:end],
            decoder_hidden_states=states.output[rows, None],
        )
        emitting: list[int] = []
        for number, (place, token_id, probability) in zip(
            waiting, _next_tokens(scores, starts, model.config.blank_token_id), strict=True
        ):
            row = decoded[number]
            row.passes += 1
            row.positions += end - row.next_frame
            frame = first + int(place)
            if frame == end:
                row.next_frame, row.symbols = end, 0
                continue
            row.tokens.append((frame, int(token_id), min(1.0, probability)))
            row.symbols = row.symbols + 1 if frame == row.next_frame else 1
            row.next_frame = frame
            if row.symbols >= model.config.max_symbols_per_step:
                row.next_frame, row.symbols = frame + 1, 0
            emitting.append(number)
        if emitting:
            ids = [decoded[number].tokens[-1][1] for number in emitting]
            states.advance(
                model.decoder,
                torch.tensor(emitting, device=frames.device),
                torch.tensor(ids, device=frames.device),
            )


def _next_tokens(scores: Tensor, starts: Tensor, blank: int) -> list[list[float]]:
    """
    Return frame, id and probability of the first token of each row that is not a blank.

    If there is none, the frame is the number of frames.  All rows reach the host in one transfer.

    Args:
        scores: [rows, frames, vocabulary].
        starts: int64[rows], the first frame to look at.
        blank: the id of the blank.

    """
    count = scores.shape[1]
    best, ids = scores.max(-1)
    places = torch.arange(count, device=scores.device)
    is_token = (ids != blank) & (places >= starts[:, None])
    place = torch.where(is_token, places, count).amin(1)
    rows, at = torch.arange(len(scores), device=scores.device), place.clamp(max=count - 1)
    surprise = scores[rows, at].float().logsumexp(-1) - best[rows, at].float()
    table: list[list[float]] = torch.stack(
        (place.float(), ids[rows, at].float(), (-surprise).exp()), 1
    ).tolist()
    return table
