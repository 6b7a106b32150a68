"""The calls of an online processor for asyncio, of which a cancelled one loses nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self, cast

from wlk_core.errors import ConcurrentCallError
from wlk_core.tokens import Emission

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import OnlineProcessor, StreamStats, SupportsSpeakerTurns
    from wlk_core.tokens import ASRToken, ChangeSpeaker, Transcript

__all__ = ["AsyncProcessor"]

logger = logging.getLogger(__name__)


class AsyncProcessor:
    """
    An online processor whose exclusive calls are awaited; each runs in a thread of asyncio.

    No engine can be interrupted.  So a call whose task is cancelled is made to its end all the
    same, in its thread, and the cancellation does not wait for it.  What it committed comes with
    the next call that returns an Emission, before the tokens of that call.  Its error, which
    changed nothing, is logged.  Calls are made one after another: one that follows a cancelled one
    waits for its end.

    This holds for a call that is awaited directly, in ``asyncio.timeout`` or in ``wait_for``; a
    task that was made of the call and dropped with its result takes that result along.  A plain
    ``asyncio.to_thread(processor.finish)`` gives no such guarantee, because asyncio drops the
    result of a thread that nothing awaits, and the processor cannot notice.

    Use it as an async context manager, or await `close`.
    """

    def __init__(self, processor: OnlineProcessor) -> None:
        self._processor = processor
        self._last: asyncio.Task[Any] | None = None  # the last call that was begun
        self._is_awaited = False
        self._kept: list[ASRToken] = []  # committed, and returned by no call yet

    def insert_audio_chunk(
        self, audio: NDArray[np.float32], audio_stream_end_time: float | None = None
    ) -> None:
        """Append a copy of *audio* without waiting; see OnlineProcessor."""
        self._processor.insert_audio_chunk(audio, audio_stream_end_time)

    def get_buffer(self) -> Transcript:
        """Return the hypothesis; see OnlineProcessor."""
        return self._processor.get_buffer()

    @property
    def has_backlog(self) -> bool:
        """Whether process_iter would take or decode something; see OnlineProcessor."""
        return self._processor.has_backlog

    @property
    def stats(self) -> StreamStats:
        """The counters so far; see OnlineProcessor."""
        return self._processor.stats

    async def process_iter(self, *, is_last: bool = False) -> Emission:
        """Run a few steps; see OnlineProcessor."""
        return await self._emission(lambda: self._processor.process_iter(is_last))

    async def start_silence(self) -> Emission:
        """Commit every word whose audio was inserted; see OnlineProcessor."""
        return await self._emission(self._processor.start_silence)

    async def end_silence(self, silence_duration: float, offset: float | None = None) -> None:
        """Move the clock; see OnlineProcessor."""
        await self._make(lambda: self._processor.end_silence(silence_duration, offset))

    async def new_speaker(self, change: ChangeSpeaker) -> Emission:
        """Commit every word so far and attribute later ones anew; see SupportsSpeakerTurns."""
        processor = cast("SupportsSpeakerTurns", self._processor)
        return await self._emission(lambda: processor.new_speaker(change))

    async def finish(self) -> Emission:
        """Commit everything and end the stream; see OnlineProcessor."""
        return await self._emission(self._processor.finish)

    async def reset(self) -> None:
        """Return to the state of a new processor, and drop what cancelled calls committed."""
        await self._make(self._processor.reset, drops_kept=True)

    async def close(self) -> None:
        """
        Release everything, and wait for the call that runs, so that the backend can be closed.

        Nothing is committed.  If it is cancelled, the processor is closed all the same.
        """
        self._processor.close()
        if self._last is not None:
            await asyncio.wait([self._last])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _emission(self, call: Callable[[], Emission]) -> Emission:
        """Make the call and return its Emission, with the tokens of cancelled calls before it."""
        emission: Emission = await self._make(call)
        kept, self._kept = self._kept, []
        return emission.replace(committed=tuple(kept))

    async def _make(self, call: Callable[[], Any], *, drops_kept: bool = False) -> Any:
        """Make the call in a thread, after the one before it, also where it is cancelled."""
        if self._is_awaited:
            raise ConcurrentCallError(
                "another call of this stream is awaited; wait for it before the next one"
            )
        # A task of its own, because asyncio drops the result of a thread whose awaiting task was
        # cancelled.
        made = asyncio.create_task(self._made(call, self._last, drops_kept=drops_kept))
        self._last = made
        self._is_awaited = True
        try:
            await asyncio.wait([made])
        except asyncio.CancelledError:
            made.add_done_callback(_log_error)
            raise
        finally:
            self._is_awaited = False
        return made.result()

    async def _made(
        self, call: Callable[[], Any], before: asyncio.Task[Any] | None, *, drops_kept: bool
    ) -> Any:
        if before is not None:
            await asyncio.wait([before])
        result = await asyncio.to_thread(call)
        if drops_kept:
            self._kept.clear()
        if isinstance(result, Emission):
            self._kept += result.committed
        return result


def _log_error(made: asyncio.Task[Any]) -> None:
    """Log the error of a call that no task awaits any more."""
    if not made.cancelled() and (error := made.exception()) is not None:
        logger.warning("a cancelled call failed: %s", error)
