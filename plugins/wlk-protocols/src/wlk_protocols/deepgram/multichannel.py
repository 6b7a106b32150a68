"""Deepgram's live transcription of audio with several interleaved channels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wlk_live.audio import PcmReader
from wlk_protocols.deepgram.listen import ListenProtocol
from wlk_serve.protocols import DAMAGED_AUDIO

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from wlk_live.session import Event
    from wlk_protocols.deepgram.query import ListenQuery
    from wlk_serve.protocols import Message, RequestError, SegmentEnd, SessionAudio, SessionInfo


class MultichannelProtocol:
    """
    A `ClientProtocol` for one connection with a `ListenProtocol` for each channel.

    With `multichannel`, each channel is transcribed as if it were alone, and results name it in
    `channel_index`; they come as they are decoded, each channel's in order.  Without it, the mean
    of all channels is transcribed.
    """

    replaceable: ClassVar[Collection[str | None]] = ()

    def __init__(self, audio: SessionAudio, info: SessionInfo, query: ListenQuery) -> None:
        self._query = query
        self._reader = PcmReader(query.encoding)
        self._rest: NDArray[np.float32] = np.empty(0, np.float32)  # the beginning of a frame
        others = range(1, query.channels if query.is_multichannel else 1)
        audios = [audio]
        audios += [info.open_channel(query.options, partial(self._handle, i)) for i in others]
        self._channels = [
            ListenProtocol(each, info, query, channel=index) for index, each in enumerate(audios)
        ]
        self._open = len(self._channels)  # those whose Metadata has yet to come

    def begin(self) -> list[Message]:
        """Return nothing, as Deepgram does."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply audio to the channels that it is of, and a message to all of them."""
        if isinstance(data, str) or not data:
            answers: list[Message] = []
            for channel in self._channels:  # some answers, to Configure, are the same for each
                answers += [each for each in channel.receive(data) if each not in answers]
            return [*self._merged(answers)]
        for channel, samples in zip(self._channels, self._divided(data), strict=True):
            if len(samples):
                channel.receive(samples.astype("<f4").tobytes())
        return []

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the first channel."""
        return self._handle(0, event)

    def refuse(self, error: RequestError) -> list[Message]:
        """Return an error message; end the audio if no more of it can be decoded."""
        answers = [*self._merged(self._channels[0].refuse(error))]  # which may end that channel
        return answers + (self.end() if error.code == DAMAGED_AUDIO else [])

    def end(self) -> list[Message]:
        """End the audio of all channels; may be called again."""
        return [*self._merged(each for channel in self._channels for each in channel.end())]

    def _handle(self, channel: int, event: Event | SegmentEnd) -> Iterator[Message]:
        return self._merged(self._channels[channel].handle(event))

    def _divided(self, data: bytes) -> list[NDArray[np.float32]]:
        """Return the samples of each channel, or the mean of all; an incomplete frame waits."""
        samples = np.concatenate((self._rest, self._reader.read(data)))
        count = len(samples) // self._query.channels * self._query.channels
        self._rest = samples[count:]
        frames = samples[:count].reshape(-1, self._query.channels)
        return [*frames.T] if self._query.is_multichannel else [frames.mean(axis=1)]

    def _merged(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield *messages*, but of the channels' Metadata only the last, which ends the session."""
        for message in messages:
            if message["type"] == "Metadata":
                self._open -= 1
                if self._open:
                    continue
            yield message
