"""Deepgram's live transcription of audio with several interleaved channels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np

from wlk_live.audio import PcmReader
from wlk_protocols.deepgram.listen import ListenProtocol
from wlk_serve.protocols import DAMAGED_AUDIO

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

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
        options = query.options
        self._reader = PcmReader(options.encoding, rate=options.rate, channels=query.channels)
        self._rest = b""  # the beginning of a frame
        if not query.is_multichannel:
            audio.change(attrs.evolve(options, encoding="f32le"))  # the mean
        others = range(1, query.channels if query.is_multichannel else 1)
        audios = [audio]
        audios += [info.open_channel(options, partial(self._handle, i)) for i in others]
        self._channels = [
            ListenProtocol(each, info, query, channel=index) for index, each in enumerate(audios)
        ]
        self._open = len(self._channels)  # those whose Metadata has yet to come

    def begin(self) -> list[Message]:
        """Return nothing, as Deepgram does."""
        return []

    def receive(self, data: str | bytes) -> list[Message]:
        """Split audio among the channels; pass a message to every channel."""
        if isinstance(data, str) or not data:
            answers: list[Message] = []
            for channel in self._channels:  # some answers, to Configure, are the same for each
                merged = self._merged(channel.receive(data))
                answers += [each for each in merged if each not in answers]
            return answers
        for channel, audio in zip(self._channels, self._divided(data), strict=True):
            if audio:  # none would end the channel
                channel.receive(audio)
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

    def _divided(self, data: bytes) -> list[bytes]:
        """Return the audio of each channel, or the mean of all; an incomplete frame waits."""
        data, size = self._rest + data, self._reader.sample_bytes
        end = len(data) - len(data) % (size * self._query.channels)
        frames, self._rest = data[:end], data[end:]
        if not self._query.is_multichannel:
            mixed = self._reader.read(frames).reshape(-1, self._query.channels).mean(axis=1)
            return [mixed.astype("<f4").tobytes()]
        self._reader.check(frames)
        if self._reader.encoding == "f32le":
            self._reader.read(frames)  # what is refused, no channel gets
        samples = np.frombuffer(frames, f"V{size}").reshape(-1, self._query.channels)
        return [samples[:, channel].tobytes() for channel in range(self._query.channels)]

    def _merged(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield *messages*, but of the channels' Metadata only the last, which ends the session."""
        for message in messages:
            if message["type"] == "Metadata":
                self._open -= 1
                if self._open:
                    continue
            yield message
