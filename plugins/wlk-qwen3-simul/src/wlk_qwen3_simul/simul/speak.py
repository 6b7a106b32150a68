"""Greedy decoding behind kept state: a draft is verified in one pass, the rest is said in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core import Work
from wlk_core.streaming import Loop, find_loop
from wlk_qwen3_simul.simul.said import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_qwen3_simul.simul.network import Memory, Network, Part
    from wlk_qwen3_simul.simul.said import Row

__all__ = ["Spoken", "speak"]

# Nobody says the same n-gram this often within a buffer, and who does is heard to that point.
LOOP_TIMES = 12
LOOP_LONGEST = 16  # tokens of the longest n-gram looked for


@attrs.frozen(kw_only=True, eq=False)
class Spoken:
    """
    What the decoder said.

    Attributes:
        ids: behind what was forced, the end excluded; all of them were fed.
        rows: one more than ids: behind row i token i was chosen, at row i + 1 it was fed.
        ended: the end was said; false where the room, a loop or the halt cut the text.
        loop: the repetition that stopped it, as places in ids.

    """

    ids: tuple[int, ...]
    rows: tuple[Row, ...]
    ended: bool
    loop: Loop | None
    work: Work

    def behind(self, count: int) -> Spoken:
        """Return the same without the first *count* tokens: what is said behind a header."""
        loop = self.loop
        if loop is not None:
            start, end = max(0, loop.start - count), max(0, loop.end - count)
            loop = Loop(start=start, period=loop.period, end=end)
        return attrs.evolve(self, ids=self.ids[count:], rows=self.rows[count:], loop=loop)


def speak(
    network: Network,
    memory: Memory,
    parts: Sequence[Part],
    *,
    forced: Sequence[int],
    draft: Sequence[int],
    room: int,
    ends: frozenset[int],
    audio: tuple[int, int],
    halt: Callable[[Sequence[int], Sequence[Row]], bool] | None = None,
) -> Spoken:
    """
    Return what follows *parts* and *forced* behind what *memory* holds.

    The tokens are those of greedy decoding whatever the draft: of it is kept what the model says
    anyway, token by token.  The pass that verifies it is the one that runs the prompt.

    Args:
        network: runs the layers.
        memory: holds what comes before; afterwards also the parts and the text.
        parts: what was not held, in order.
        forced: ids behind them, at least one.
        draft: what the text is guessed to begin with.
        room: how many tokens it may have.
        ends: ids that end it.
        audio: see Network.extend.
        halt: asked behind every token with what was said and its rows; true ends the text.

    """
    draft = draft[:room]
    told = [*forced, *draft]
    before = memory.length
    looked = network.extend(memory, [*parts, told], rows=1 + len(draft), audio=audio)
    work = Work(decoder_positions=memory.length - before, decoder_forwards=1, host_syncs=1)
    rows = rows_of(looked)
    accepted = _accepted(draft, rows, ends=ends, halt=halt)
    memory.keep(memory.length - (len(draft) - accepted))
    ids, rows = list(draft[:accepted]), rows[: accepted + 1]
    while True:
        chosen = rows[-1].chosen
        loop = find_loop(ids, times=LOOP_TIMES, longest=LOOP_LONGEST)
        ended = chosen in ends
        if ended or loop or len(ids) >= room or (ids and halt and halt(ids, rows)):
            return Spoken(ids=tuple(ids), rows=tuple(rows), ended=ended, loop=loop, work=work)
        rows += rows_of(network.extend(memory, [[chosen]], rows=1, audio=audio))
        ids.append(chosen)
        work += Work(decoder_positions=1, decoder_forwards=1, host_syncs=1)


def _accepted(
    draft: Sequence[int],
    rows: Sequence[Row],
    *,
    ends: frozenset[int],
    halt: Callable[[Sequence[int], Sequence[Row]], bool] | None,
) -> int:
    """
    Return how many tokens of *draft* the model says anyway before anything ends the text.

    That it was let go on as far when it was said before tells nothing: behind other audio the same
    tokens look elsewhere.
    """
    loop = find_loop(draft, times=LOOP_TIMES, longest=LOOP_LONGEST)
    most = loop.end if loop else len(draft)
    for count, token in enumerate(draft[:most]):
        if rows[count].chosen != token or token in ends:
            return count
        if count and halt and halt(draft[:count], rows[: count + 1]):
            return count
    return most
