"""What a session received and has not processed yet: audio, gaps, requests and marks, in order."""

from __future__ import annotations

from collections import deque
from enum import Enum
import threading
from typing import TypeAlias, cast

import attrs

from wlk_core.audio import ValidAudio
from wlk_core.errors import StreamClosed
from wlk_core.processor import SAMPLE_RATE

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
        self.items: deque[Item] = deque()  #: what waits, to be removed with `take`
        self.end = 0.0  #: the time of the end of everything put in, in seconds
        self.waiting_seconds = 0.0  #: seconds of the audio that waits
        self.requests = 0  #: commits and ends that wait
        self.is_closed = False  #: whether all input is refused
        self._lock = threading.Lock()
        self._end_sample = 0  # of all audio and gaps put in
        self._waiting_samples = 0

    def put(self, item: Item) -> None:
        """Append an item, audio in pieces of at most MAX_PIECE."""
        with self._lock:
            if self.is_closed:
                raise StreamClosed("the session has ended; open a new one for more audio")
            match item:
                case ValidAudio():  # first, because arrays compare by element
                    for start in range(0, len(item), MAX_PIECE):
                        self.items.append(cast("ValidAudio", item[start : start + MAX_PIECE]))
                    self._end_sample += len(item)
                    self._waiting_samples += len(item)
                    self.waiting_seconds = self._waiting_samples / SAMPLE_RATE
                case Gap(0):
                    pass
                case Gap(samples):
                    self.items.append(item)
                    self._end_sample += samples
                case _:
                    self.items.append(item)
                    self.requests += isinstance(item, Request)
            self.end = self._end_sample / SAMPLE_RATE

    def take(self) -> Item | None:
        """Remove and return the next item; None if nothing waits."""
        with self._lock:
            if not self.items:
                return None
            item = self.items.popleft()
            if isinstance(item, ValidAudio):
                self._waiting_samples -= len(item)
                self.waiting_seconds = self._waiting_samples / SAMPLE_RATE
            self.requests -= isinstance(item, Request)
            return item

    def take_audio(self) -> ValidAudio | None:
        """Remove and return the next item if it is audio."""
        item = self.items[0] if self.items else None
        if not isinstance(item, ValidAudio):
            return None
        self.take()
        return item

    def close(self) -> None:
        """Refuse all input from now on; what waits can still be taken."""
        with self._lock:
            self.is_closed = True

    def clear(self) -> None:
        """Drop everything that waits."""
        with self._lock:
            self.items.clear()
            self._waiting_samples = self.requests = 0
            self.waiting_seconds = 0.0
