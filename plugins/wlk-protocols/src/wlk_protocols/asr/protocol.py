"""
The protocol of WhisperLiveKit's WebSocket ``/asr``.

It follows whisperlivekit 0.2.26: basic_server.py, timed_objects.py, diff_protocol.py, its page.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from wlk_core.processor import EPS
from wlk_live.session import (
    Commit,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    Lag,
    SilenceSpan,
    SpeakerTurn,
    Timeline,
    Translation,
)
from wlk_live.session.timeline import TextLine
from wlk_serve.protocols import (
    DAMAGED_AUDIO,
    WEBM_START,
    RequestError,
    SegmentEnd,
    WebmDecoder,
    as_request_error,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wlk_core.tokens import ASRToken
    from wlk_live.session import Event
    from wlk_live.session.timeline import Line
    from wlk_serve.protocols import Message, SessionAudio, SessionInfo

Mode: TypeAlias = Literal["full", "diff"]
MODES: tuple[Mode, ...] = ("full", "diff")
_MAX_LINES = 200  # per state, as many as WhisperLiveKit's page shows
# Older lines that the last state of mode "full" has as well: more than a session of a day has, so
# that the memory of a session without a limit does not grow for ever.
_MAX_OLDER_LINES = 50_000
_RECENT_UTTERANCES = 3  # utterances that a late speaker turn or translation can still change
_SILENCE, _FIRST_SPEAKER = -2, 1
_CONTAINERS = (WEBM_START, b"OggS", b"RIFF", b"fLaC")  # the decoder accepts WebM only


@attrs.define
class _Utterance:
    """An utterance and its lines: with one timeline each, an event rebuilds only recent lines."""

    _timeline: Timeline = attrs.field(factory=Timeline)
    lines: tuple[Line, ...] = ()

    def add(self, event: Event) -> None:
        self._timeline.add(event)
        self.lines = self._timeline.lines


class AsrProtocol:
    """
    A `ClientProtocol` for one connection.

    In mode "full", every change sends the whole state, up to 200 lines; a newer state replaces one
    that is still queued.  In mode "diff", every change sends the lines that changed.
    """

    def __init__(self, audio: SessionAudio, _info: SessionInfo, *, mode: Mode = "full") -> None:
        self._audio = audio
        self._mode = mode
        #: Full states are the messages without a type.
        self.replaceable: Collection[str | None] = (None,) if mode == "full" else ()
        self._utterances = deque([_Utterance()])  # the last one is open
        self._speakers: dict[int | str, int] = {}
        #: Lines too old for a state; in mode "full" the last state includes them.
        self._dropped: deque[Message] = deque(maxlen=_MAX_OLDER_LINES)
        self._hypothesis: tuple[ASRToken, ...] = ()
        self._lag = 0.0
        self._error = ""
        self._start: bytes | None = b""  # of the audio, until they tell whether it is a container
        self._webm: WebmDecoder | None = None
        self._has_ended = False  # by the client, not by a limit or a shutdown
        self._sent: Message = {}  # the last state
        self._sequence = 0

    def begin(self) -> list[Message]:
        """
        Return the configuration, which asks clients for samples.

        They then send 16-bit samples at 16 kHz, in browsers from an AudioWorklet.  Clients that
        record with a MediaRecorder regardless send WebM.
        """
        return [{"type": "config", "useAudioWorklet": True, "mode": self._mode}]

    def receive(self, data: str | bytes) -> list[Message]:
        """Apply samples or WebM, or the end of the audio, which is an empty message."""
        if self._audio.is_ended:
            return []
        if isinstance(data, str):
            return [*self._update("expected binary messages with 16-bit samples at 16 kHz")]
        if not data:
            self._has_ended = True
            return self.end()
        if self._start is not None:
            data = self._start = self._start + data
            if any(each.startswith(data) and each != data for each in _CONTAINERS):
                return []  # too short to tell
            self._start = None
            self._webm = WebmDecoder() if data.startswith(_CONTAINERS) else None
        if self._webm is None:
            self._audio.append(data)
        else:
            self._audio.append_pieces(self._webm.decode(data))
        return []

    def refuse(self, error: RequestError) -> list[Message]:
        """
        Return a state with an error: the page would take another message for an empty state.

        The audio ends if no more of it can be decoded.
        """
        state = [*self._update(str(error))]
        if error.code == DAMAGED_AUDIO:
            self._has_ended = True
            state += self.end()
        return state

    def handle(self, event: Event | SegmentEnd) -> Iterator[Message]:
        """Apply an event of the session."""
        if isinstance(event, SegmentEnd):
            return
        self._update_lines(event)
        match event:
            case Commit(tokens) if tokens:
                # The next event has the hypothesis without them; show them only once until then.
                end = tokens[-1].end - EPS
                self._hypothesis = tuple(each for each in self._hypothesis if each.start >= end)
            case HypothesisChange():
                self._hypothesis = event.transcript.tokens
            case Lag():
                self._lag = round(event.seconds, 2)
            case Failure(is_final=True):
                self._error = str(as_request_error(event.error))
        yield from self._update()
        if isinstance(event, End) and self._has_ended and not self._audio.has_failed:
            yield from self._all_lines()
            yield {"type": "ready_to_stop"}

    def end(self) -> list[Message]:
        """End the audio; may be called again."""
        was_over = self._audio.is_over
        if self._start is not None:
            self._audio.append(self._start)
        self._audio.end()
        if self._audio.segments or was_over or not self._has_ended:
            return []
        return [{"type": "ready_to_stop"}]

    def _update_lines(self, event: Event) -> None:
        """Apply an event to the lines, and drop utterances too old for a state."""
        match event:
            case Endpoint():
                self._utterances.append(_Utterance())
            case Commit() | SilenceSpan():
                self._utterances[-1].add(event)
            case SpeakerTurn() | Translation():
                for utterance in [*self._utterances][-_RECENT_UTTERANCES:]:
                    utterance.add(event)
        while sum(len(newer.lines) for newer in [*self._utterances][1:]) >= _MAX_LINES:
            oldest = self._utterances.popleft()
            if self._mode == "full":
                self._dropped += map(self._line, oldest.lines)

    def _lines(self) -> list[Line]:
        """Return the lines of all utterances that are kept."""
        return [line for utterance in self._utterances for line in utterance.lines]

    def _all_lines(self) -> Iterator[Message]:
        """
        Yield a last state with every line, in mode "full"; of a very long session, the newest.

        Clients of this mode keep only the last state (WhisperLiveKit#372).
        """
        if self._mode == "full" and self._dropped:
            kept = [self._line(line) for line in self._lines()]
            yield {**self._sent, "lines": [*self._dropped, *kept]}

    def _update(self, error: str = "") -> Iterator[Message]:
        """Yield the state if it changed; an *error* is part of this one state only."""
        state = self._state(error or self._error)
        if state == self._sent:
            return
        last, self._sent = self._sent, state
        self._sequence += 1
        if self._mode == "full":
            yield state
        elif not last:
            yield {"type": "snapshot", "seq": self._sequence, **state}
        else:
            yield {"type": "diff", "seq": self._sequence, **_diff_fields(last, state)}

    def _state(self, error: str) -> Message:
        lines = [self._line(line) for line in self._lines()[-_MAX_LINES:]]
        hypothesis = "".join(token.text for token in self._hypothesis)
        has_sound = bool(lines or hypothesis)
        state: Message = {
            "status": "active_transcription" if has_sound else "no_audio_detected",
            "lines": lines,
            "buffer_transcription": hypothesis,
            "buffer_diarization": "",
            "buffer_translation": "",
            "remaining_time_transcription": self._lag,
            "remaining_time_transcription_processing": self._lag,
            "remaining_time_transcription_policy": 0.0,
            "remaining_time_diarization": 0.0,
        }
        return {**state, "status": "error", "error": error} if error else state

    def _line(self, line: Line) -> Message:
        record: Message = {
            "speaker": _SILENCE,
            "text": "",
            "start": _clock(line.start),
            "end": _clock(line.end),
        }
        if isinstance(line, TextLine):
            record["speaker"], record["text"] = self._speaker(line.speaker), line.text
            if line.translation is not None:
                record["translation"] = line.translation
            if language := line.tokens[0].detected_language:
                record["detected_language"] = language
        return record

    def _speaker(self, speaker: int | str | None) -> int:
        """Return the number in "Speaker 1", for a name that of its first appearance."""
        if speaker is None:
            return _FIRST_SPEAKER
        if isinstance(speaker, int) and speaker >= 0:
            return speaker + _FIRST_SPEAKER
        return self._speakers.setdefault(speaker, _FIRST_SPEAKER + len(self._speakers))


def _diff_fields(last: Message, state: Message) -> Message:
    """Return the fields of a diff: how many old lines were dropped, and the lines that changed."""
    lines, before = state["lines"], last["lines"]
    pruned = 0
    if len(lines) == _MAX_LINES and len(before) == _MAX_LINES and lines[0] != before[0]:
        pruned = before.index(lines[0]) if lines[0] in before else len(before)
    kept = before[pruned:]
    common = 0
    while common < min(len(kept), len(lines)) and kept[common] == lines[common]:
        common += 1
    fields = {name: value for name, value in state.items() if name != "lines"}
    fields["n_lines"] = len(lines)
    if pruned:
        fields["lines_pruned"] = pruned
    if lines[common:]:
        fields["new_lines"] = lines[common:]
    return fields


def _clock(seconds: float) -> str:
    """Format a time as H:MM:SS.cc."""
    hundredths = round(seconds * 100)
    minutes, hundredths = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{hundredths // 100:02}.{hundredths % 100:02}"
