"""What a session received and has not processed yet: audio, gaps, requests and marks, in order."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from enum import Enum
import threading
from typing import TYPE_CHECKING, TypeAlias

import attrs

from wlk_core.audio import ValidAudio, sealed, valid_copy
from wlk_core.errors import ClockError, StreamClosed
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

MAX_PIECE = 60 * SAMPLE_RATE  # the longest audio that a session gives to a model at once


class Request(Enum):
    """What the owner of a session asks for, at a position in its audio."""

    COMMIT = "commit"
    END = "end"


@attrs.frozen
class Gap:
    """Audio that was not captured."""

    samples: int


@attrs.frozen
class Mark:
    """A request to report when all audio before it is decoded."""

    name: str


Item: TypeAlias = ValidAudio | Gap | Request | Mark


class Inbox:
    """
    The items that were put in and not yet taken, and how much audio they are.

    Any thread may put; one thread at a time may take.  Nothing waits for the model.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._end_sample = 0  # of all audio and gaps put in
        self._waiting_samples = 0  # of the audio that waits
        self._requests = 0  # that wait
        self.is_closed = False  #: whether all input is refused

    @property
    def end(self) -> float:
        """The time of the end of everything put in, in seconds."""
        return self._end_sample / SAMPLE_RATE

    @property
    def waiting_seconds(self) -> float:
        """Seconds of audio that wait to be taken."""
        return self._waiting_samples / SAMPLE_RATE

    @property
    def has_items(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self._items)

    @property
    def has_requests(self) -> bool:
        """Whether a commit or the end waits to be taken."""
        return self._requests > 0

    def put_audio(self, audio: NDArray[np.float32]) -> None:
        """Append a copy of audio, or valid audio itself, in pieces of at most MAX_PIECE."""
        audio = valid_copy(audio)
        with self._accepting():
            for start in range(0, len(audio), MAX_PIECE):
                self._items.append(sealed(audio[start : start + MAX_PIECE]))
            self._end_sample += len(audio)
            self._waiting_samples += len(audio)

    def put_gap(self, seconds: float) -> None:
        """Append a gap, rounded to samples; ClockError unless it is a length of a stream."""
        number = real_number(seconds)
        if number is None or not 0 <= number <= MAX_STREAM_SECONDS:
            raise ClockError(
                f"expected a gap of 0 to {MAX_STREAM_SECONDS:.0f} s (ten years), "
                f"got {shown(seconds)}"
            )
        with self._accepting():
            gap = Gap(round(number * SAMPLE_RATE))
            if gap.samples:
                self._items.append(gap)
                self._end_sample += gap.samples

    def put(self, item: Request | Mark) -> None:
        """Append a request or a mark."""
        with self._accepting():
            self._items.append(item)
            if isinstance(item, Request):
                self._requests += 1

    def close(self) -> None:
        """Refuse all input from now on; what waits can still be taken."""
        with self._lock:
            self.is_closed = True

    def clear(self) -> None:
        """Drop everything that waits."""
        with self._lock:
            self._items.clear()
            self._waiting_samples = self._requests = 0

    def take(self) -> Item | None:
        """Remove and return the next item; None if nothing waits."""
        with self._lock:
            return self._pop() if self._items else None

    def take_audio(self) -> ValidAudio | None:
        """Remove and return the next item if it is audio."""
        with self._lock:
            item = self._items[0] if self._items else None
            if not isinstance(item, ValidAudio):
                return None
            self._pop()
            return item

    def _pop(self) -> Item:
        item = self._items.popleft()
        if isinstance(item, ValidAudio):
            self._waiting_samples -= len(item)
        elif isinstance(item, Request):
            self._requests -= 1
        return item

    @contextmanager
    def _accepting(self) -> Iterator[None]:
        with self._lock:
            if self.is_closed:
                raise StreamClosed("the session has ended; open a new one for more audio")
            yield
