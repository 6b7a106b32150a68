"""A toy network whose predictions depend on everything it has processed."""

from __future__ import annotations

from contextlib import nullcontext

import attrs

from wlk_core.streaming import TokenPrediction

__all__ = ["PAD", "ToyBatchNetwork", "ToyCache", "ToyNetwork", "ToyPass"]

PAD = 2


@attrs.frozen
class ToyCache:
    """The values that were processed so far."""

    values: tuple = ()

    @property
    def nbytes(self):
        """One byte for each value."""
        return len(self.values)


@attrs.frozen
class ToyPass:
    """A forward pass over the toy network."""

    predictions: list
    kv_cache: ToyCache

    def truncated(self, count):
        """Drop the values of the last positions."""
        dropped = len(self.predictions) - count
        return ToyCache(self.kv_cache.values[: len(self.kv_cache.values) - dropped])


@attrs.define
class ToyNetwork:
    """A network whose prediction is a hash of all inputs so far; it counts its passes."""

    seed: int = 0
    pads: float = 0.7  # share of the steps without text
    min_margin: float = 1.0
    fail_at: int = 0
    widths: list = attrs.field(factory=list)

    def running(self):
        """Prepare nothing."""
        return nullcontext()

    def encode(self, mel, cache, *, delay_steps):
        """Return one value for each step: its number and the delay."""
        before = cache.values if cache else ()
        steps = tuple(range(len(before), len(before) + len(mel) // 8))
        audio = [hash((step, delay_steps)) for step in steps]
        return audio, ToyCache((*before, *steps))

    def forward(self, token_ids, audio, *, first, kv_cache, position):
        """Predict after each input from all inputs so far."""
        self.widths.append(len(token_ids))
        if len(self.widths) == self.fail_at:
            raise RuntimeError("out of memory")
        return self.pass_over(token_ids, audio, first=first, kv_cache=kv_cache, position=position)

    def pass_over(self, token_ids, audio, *, first, kv_cache, position):
        """Run the positions of one stream."""
        values = kv_cache.values if kv_cache else ()
        assert position == len(values)
        predictions = []
        for value in zip(token_ids, audio[first : first + len(token_ids)], strict=True):
            values = (*values, value)
            share = hash((self.seed, values)) % 1000 / 1000
            token_id = PAD if share < self.pads else 3 + int(1000 * share) % 5
            margin = 9.0 if int(10_000 * share) % 3 else 0.0
            predictions.append(TokenPrediction(token_id, share, margin))
        return ToyPass(predictions, ToyCache(values))


@attrs.define
class ToyBatchNetwork(ToyNetwork):
    """
    The network with common passes, in which predictions that are close come out wrong.

    That is what the rounding of a wider sum may do.
    """

    def encode_batch(self, rows):
        """Encode each row."""
        return [self.encode(row.mel, row.cache, delay_steps=row.delay_steps) for row in rows]

    def forward_batch(self, rows):
        """Run each row; a close prediction has another id."""
        self.widths.append(sum(len(row.token_ids) for row in rows))
        if len(self.widths) == self.fail_at:
            raise RuntimeError("out of memory")
        passes = [
            self.pass_over(
                row.token_ids,
                row.audio,
                first=row.first,
                kv_cache=row.kv_cache,
                position=row.position,
            )
            for row in rows
        ]
        return [attrs.evolve(p, predictions=list(map(_rounded, p.predictions))) for p in passes]


def _rounded(prediction):
    is_close = prediction.margin < 1.0
    return attrs.evolve(prediction, id=prediction.id + 1) if is_close else prediction
