"""A toy network whose predictions depend on everything it has processed."""

from __future__ import annotations

from contextlib import nullcontext

import attrs

from wlk_voxtral.speculative import TokenPrediction

PAD = 2


@attrs.frozen
class ToyCache:
    """The values processed so far."""

    values: tuple = ()

    @property
    def nbytes(self):
        """One byte per value."""
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
    pads: float = 0.7  # share of steps without text
    min_margin: float = 1.0
    fail_at: int = 0
    widths: list = attrs.field(factory=list)

    def running(self):
        """Return a context that does nothing."""
        return nullcontext()

    def encode_batch(self, rows):
        """Return one value for each step of a row: its number and the delay."""
        return [self._encode(row) for row in rows]

    def forward_batch(self, rows):
        """Predict after each input of a row from all inputs so far."""
        return [self._forward([row])[0] for row in rows]

    def _encode(self, row):
        before = row.cache.values if row.cache else ()
        steps = tuple(range(len(before), len(before) + len(row.mel) // 8))
        audio = [hash((step, row.delay_steps)) for step in steps]
        return audio, ToyCache((*before, *steps))

    def _forward(self, rows):
        """Run the positions of *rows* in one pass."""
        self.widths.append(sum(len(row.token_ids) for row in rows))
        if len(self.widths) == self.fail_at:
            raise RuntimeError("out of memory")
        return [self._pass_over(row) for row in rows]

    def _pass_over(self, row):
        values = row.kv_cache.values if row.kv_cache else ()
        assert row.position == len(values)
        predictions = []
        audio = row.audio[row.first : row.first + len(row.token_ids)]
        for value in zip(row.token_ids, audio, strict=True):
            values = (*values, value)
            share = hash((self.seed, values)) % 1000 / 1000
            token_id = PAD if share < self.pads else 3 + int(1000 * share) % 5
            margin = 9.0 if int(10_000 * share) % 3 else 0.0
            predictions.append(TokenPrediction(token_id, share, margin))
        return ToyPass(predictions, ToyCache(values))


@attrs.define
class ToyBatchNetwork(ToyNetwork):
    """
    The network with shared passes, which predict another id if the margin is small.

    Rounding in a wider sum can have that effect.
    """

    def forward_batch(self, rows):
        """Run all rows in one pass; a wide one changes ids whose margin is small."""
        passes = self._forward(rows)
        if self.widths[-1] == 1:
            return passes
        return [attrs.evolve(p, predictions=list(map(_rounded, p.predictions))) for p in passes]


def _rounded(prediction):
    is_close = prediction.margin < 1.0
    return attrs.evolve(prediction, id=prediction.id + 1) if is_close else prediction
