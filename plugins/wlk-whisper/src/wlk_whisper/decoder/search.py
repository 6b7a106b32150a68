"""Greedy and beam search over a Network: from an encoded stretch and a prompt to tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from wlk_core import Work
from wlk_core.streaming import Loop, find_loop
from wlk_whisper.decoder.timing import AttendedFrames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_whisper.decoder.network import Encoded, Forward, Network, Run
    from wlk_whisper.decoder.rules import Rules

__all__ = ["Decoded", "Halt", "decode"]

# Nobody says the same n-gram this often within a window, and who does is heard to that point:
# what follows is left to the next window, where it is not a continuation of itself.
LOOP_TIMES = 12
LOOP_LONGEST = 16  # tokens of the longest n-gram looked for


class Halt(Protocol):
    """Decide after every token whether the search has gone far enough."""

    def __call__(self, tokens: Sequence[int], frames: Sequence[int]) -> bool:
        """
        Return true to stop behind the last of *tokens*.

        Args:
            tokens: what the best hypothesis has said behind the prompt, the end of text excluded.
            frames: one for each of *tokens*, the encoder position attended to when it was chosen
                (see AttendedFrames); empty where no attention was asked for.

        """
        ...


@attrs.frozen(kw_only=True, eq=False)
class Decoded:
    """
    The best hypothesis of a search.

    Attributes:
        tokens: what was said behind the prompt, timestamps included, the end of text excluded.
        log_probs: float32[tokens], under the rules.
        frames: int64[tokens], the encoder position attended to when each token was chosen; empty
            without attention.
        attention: float32[heads, rows, positions] or None.  Row i is that of the i-th token fed,
            the prompt's first; it is the one that chose token i + 1, so the last row is that which
            chose the end of text or, where there is none, the last token.
        no_speech: the probability of no speech at the start of the transcript; 0 where the prompt
            holds no start.
        ended: the end of text was said; false where the budget, a loop or `halt` cut the text.
        loop: the repetition that stopped the search, as places in `tokens`.

    """

    tokens: tuple[int, ...]
    log_probs: NDArray[np.float32]
    frames: NDArray[np.int64]
    attention: NDArray[np.float32] | None
    no_speech: float
    ended: bool
    loop: Loop | None
    work: Work


def decode(
    network: Network,
    encoded: Encoded,
    prompt: Sequence[int],
    *,
    rules: Rules,
    budget: int,
    beam_size: int = 1,
    attend: bool = False,
    positions: int | None = None,
    halt: Halt | None = None,
) -> Decoded:
    """
    Return what follows *prompt* in *encoded*.

    The beam is that of CTranslate2 and openai/whisper: it ends when as many hypotheses as
    `beam_size` have, the best has the highest mean log-probability; a beam of one is greedy.  It
    ends early when the best open hypothesis repeats itself or satisfies *halt*, with that one.

    Args:
        network: runs the layers.
        encoded: what was heard.
        prompt: all tokens that are forced, start of transcript and prefix included.
        rules: which tokens may follow.
        budget: how many tokens may follow, at most as many as the decoder has room for.
        beam_size: hypotheses kept.
        attend: whether attention and frames are wanted.
        positions: how many encoder positions hold audio: frames are looked for in these and
            `Decoded.attention` is cut to them; None means all.
        halt: asked after every token behind which the search would go on.

    Raises:
        ValueError: the prompt is empty or leaves no room for a token.

    """
    room = min(budget, network.text_positions - len(prompt))
    if not prompt or room < 1:
        raise ValueError(
            f"expected a prompt of 1 to {network.text_positions - 1} tokens and a budget of at "
            f"least 1, got {len(prompt)} and {budget}"
        )
    search = _Search(network.begin(encoded), rules, beam_size, attend, positions, room)
    search.open(prompt)
    while not search.is_finished:
        best = search.rows[0]
        loop = _loop(best.tokens)
        if loop is not None or (halt is not None and halt(best.tokens, best.chosen)):
            if search.done:
                break  # a better text has ended already: what is open is what comes behind its end
            return search.result(best, ended=False, loop=loop)
        search.step()
    best, ended = search.best()
    return search.result(best, ended=ended, loop=None)


def _loop(tokens: tuple[int, ...]) -> Loop | None:
    if tokens.count(tokens[-1]) < LOOP_TIMES:
        return None  # cheap, and so in nearly every step
    return find_loop(tokens, times=LOOP_TIMES, longest=LOOP_LONGEST)


@attrs.frozen(eq=False)
class _Row:
    """A hypothesis; histories are shared with the one it grew from."""

    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    score: float = 0.0
    chosen: tuple[int, ...] = ()  #: the frame at which each token was chosen
    seen: AttendedFrames | None = None
    rows: tuple[NDArray[np.float32], ...] = ()  #: attention float32[heads, new, positions]

    def ranked(self) -> float:
        return self.score / max(1, len(self.tokens))

    def said(self, token: int, log_prob: float) -> _Row:
        """Return the row with one more token."""
        frames = () if self.seen is None else (self.seen.newest,)
        return attrs.evolve(
            self,
            tokens=(*self.tokens, token),
            log_probs=(*self.log_probs, log_prob),
            score=self.score + log_prob,
            chosen=self.chosen + frames,
        )

    def looked(self, attention: NDArray[np.float32]) -> _Row:
        """Return the row with the attention of the tokens it was just run on."""
        seen = AttendedFrames() if self.seen is None else self.seen
        return attrs.evolve(self, seen=seen.after(attention), rows=(*self.rows, attention))


@attrs.define(eq=False)
class _Search:
    """The state of one search: open rows, finished ones, and the work done."""

    run: Run
    rules: Rules
    beam_size: int
    attend: bool
    positions: int | None
    room: int
    rows: list[_Row] = attrs.Factory(lambda: [_Row()])
    done: list[tuple[_Row, float, bool]] = attrs.Factory(list)
    is_finished: bool = False
    no_speech: float = 0.0
    work: Work = attrs.Factory(Work)

    def open(self, prompt: Sequence[int]) -> None:
        """Run the prompt and choose the first tokens."""
        start = list(prompt).index(self.rules.sot) if self.rules.sot in prompt else None
        keep = (-1,) if start is None else (start, -1)
        heard = self._forward(np.array([prompt], dtype=np.int64), keep)
        if start is not None:
            self.no_speech = self.rules.no_speech_probability(heard.logits[0, 0])
        self._choose(heard)

    def step(self) -> None:
        """Run every open row by its newest token and choose the next ones."""
        newest = np.array([[row.tokens[-1]] for row in self.rows], dtype=np.int64)
        self._choose(self._forward(newest, (-1,)))

    def best(self) -> tuple[_Row, bool]:
        """Return the finished hypothesis that ranks highest, and whether it said the end."""
        row, _, ended = max(self.done, key=lambda entry: entry[1])
        return row, ended

    def result(self, row: _Row, *, ended: bool, loop: Loop | None) -> Decoded:
        attention = np.concatenate(row.rows, axis=1) if row.rows else None
        return Decoded(
            tokens=row.tokens,
            log_probs=np.array(row.log_probs, dtype=np.float32),
            frames=np.array(row.chosen, dtype=np.int64),
            attention=attention,
            no_speech=self.no_speech,
            ended=ended,
            loop=loop,
            work=self.work,
        )

    def _forward(self, tokens: NDArray[np.int64], keep: tuple[int, ...]) -> Forward:
        heard = self.run.forward(tokens, keep=keep, attend=self.attend)
        self.work += Work(decoder_positions=tokens.size, decoder_forwards=1, host_syncs=1)
        if heard.attention is not None:
            looked = heard.attention[..., : self.positions]
            self.rows = [row.looked(looked[index]) for index, row in enumerate(self.rows)]
        return heard

    def _choose(self, heard: Forward) -> None:
        log_probs = np.stack(
            [
                self.rules.log_probs(logits[-1], row.tokens)
                for logits, row in zip(heard.logits, self.rows, strict=True)
            ]
        )
        if np.isnan(log_probs).any():
            raise FloatingPointError(
                "the decoder gave logits that are no numbers: its arithmetic overflowed; "
                "load the model in float32 or bfloat16"
            )
        is_full = len(self.rows[0].tokens) + 1 == self.room
        origins: list[int] = []
        rows: list[_Row] = []
        for place, (origin, token) in enumerate(self._candidates(log_probs)):
            log_prob = float(log_probs[origin, token])
            if token != self.rules.eot:
                row = self.rows[origin].said(token, log_prob)
                if len(rows) < self.beam_size:
                    origins.append(origin)
                    rows.append(row)
                if is_full and place < self.beam_size:
                    self.done.append((row, row.ranked(), False))
            elif place < self.beam_size:
                row = self.rows[origin]
                total = row.score + log_prob
                self.done.append((row, total / max(1, len(row.tokens)), True))
        self.is_finished = is_full or not rows or len(self.done) >= self.beam_size
        if not self.is_finished:
            if origins != list(range(len(self.rows))):
                self.run.reorder(origins)
            self.rows = rows

    def _candidates(self, log_probs: NDArray[np.float32]) -> list[tuple[int, int]]:
        """Return the most likely continuations as (row, token), twice as many as rows are kept."""
        if self.beam_size == 1:
            return [(0, int(log_probs[0].argmax()))]
        scores = log_probs + np.array([[row.score] for row in self.rows])
        # A row has one end of text, so at least half of these go on.
        count = min(2 * self.beam_size, scores.size - 1)
        flat = scores.ravel()
        likely = np.argpartition(-flat, count)[:count]
        likely = likely[np.argsort(-flat[likely], kind="stable")]
        rows, tokens = np.divmod(likely, scores.shape[1])
        return [
            (int(row), int(token))
            for row, token in zip(rows, tokens, strict=True)
            if np.isfinite(scores[row, token])
        ]
