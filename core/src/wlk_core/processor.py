"""The online-processor protocol: what every stream of every backend can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.tokens import ChangeSpeaker, Emission, Transcript

SAMPLE_RATE = 16_000  # samples per second, for every stream
EPS = 0.02  # seconds by which a caller's clock may differ from the sample count (contract IN-03)
MAX_STREAM_SECONDS = 315_360_000.0  # ten years: a later time is a mistake in the caller's clock
MAX_RETRIES = 3  # failed retries in a row after which a stream is broken (contract ERR-03)


@attrs.frozen(kw_only=True)
class WorkCounters:
    """
    What the engine computed for one call, or for many: `+` adds counters up.

    A counter that the backend cannot know is None, and the backend's documentation says so.
    None plus a number is the number.
    """

    encoder_frames: int | None = None  #: mel frames given to the encoder, padding included
    decoder_positions: int | None = None  #: positions run through the decoder
    decoder_forwards: int | None = None  #: decoder calls, whatever their width
    host_syncs: int | None = None  #: times the host waited for the device
    detokenised_ids: int | None = None  #: ids given to the detokeniser

    def __add__(self, other: WorkCounters) -> WorkCounters:
        """Return the sum, counter by counter."""
        sums: dict[str, int | None] = {}
        for field in attrs.fields(WorkCounters):
            known = [getattr(self, field.name), getattr(other, field.name)]
            known = [count for count in known if count is not None]
            sums[field.name] = sum(known) if known else None
        return WorkCounters(**sums)


@attrs.frozen(kw_only=True)
class StreamStats(WorkCounters):
    """Counters of one stream since its start: the engine's work, audio, memory and time."""

    audio_seconds: float = 0.0  #: audio inserted, without silences
    state_bytes: int | None = None  #: bytes this stream holds now; None if unknown
    busy_seconds: float = 0.0  #: wall-clock time spent in the engine
    misplaced_words: int = 0  #: words that the engine timed outside the audio, moved into it


class OnlineProcessor(Protocol):
    """
    One stream: audio in, timed words out.

    Audio is one-dimensional float32 at 16 kHz.  Times are seconds on the stream clock, which
    counts samples.  `insert_audio_chunk`, `get_buffer` and `stats` may be called from any thread at
    any time and never wait for the model.  The other calls are exclusive: each may come from a
    different thread, but overlapping ones raise ConcurrentCallError and change nothing.

    If the engine fails, a call raises BackendError, and the next call retries.  The failed step
    changes nothing; what earlier steps of the call committed is in `BackendError.committed` and in
    the next Emission.  After three failed retries every call raises StreamBroken.
    """

    def insert_audio_chunk(
        self, audio: NDArray[np.float32], audio_stream_end_time: float | None = None
    ) -> None:
        """
        Append a copy of *audio*, float32[n] with n >= 0, to the stream.

        `audio_stream_end_time` is where the caller believes the chunk ends.  A difference of up to
        EPS from the sample count is absorbed and never accumulates; a larger gap counts as a
        silence of that length before the chunk, as if by start_silence and end_silence, and its
        tokens come with the next Emission.  None means "directly after the audio so far".

        Raises:
            AudioFormatError: a wrong rank or dtype, NaN, infinity, or a sample beyond 16, as in
                integers that were cast but not scaled; nothing was changed.
            ClockError: the chunk would begin more than EPS in the past, or the end time is not a
                number up to MAX_STREAM_SECONDS; nothing was changed.
            StreamClosed: the stream was finished or closed.
            StreamBroken: the engine failed too often.

        """
        ...

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """
        Run the next few steps of the model and return what they committed.

        `has_backlog` stays true while another call would decode more audio.  With `is_last`
        everything inserted is decoded and committed, as by finish, but the stream stays open.
        """
        ...

    def get_buffer(self) -> Transcript:
        """Return the hypothesis: text that may still change.  Pure, cheap, never waits."""
        ...

    def start_silence(self) -> Emission:
        """Commit every word whose audio was inserted: a pause begins here."""
        ...

    def end_silence(self, silence_duration: float, offset: float | None = None) -> None:
        """
        Move the stream clock by exactly `silence_duration` seconds (any real number >= 0).

        `offset` is advisory and never changes a time.  Works without start_silence too, for a
        leading silence or one noticed late; tokens before it come with the next Emission.

        Raises:
            ClockError: the duration is not in [0, MAX_STREAM_SECONDS]; nothing was changed.

        """
        ...

    def finish(self) -> Emission:
        """
        Commit everything and end the stream.

        A second call commits nothing and runs no model.  If a call fails, the stream stays open
        and finish can be called again.
        """
        ...

    def reset(self) -> None:
        """Return to the state of a new processor, even if finished or broken."""
        ...

    def close(self) -> None:
        """
        Release everything the stream holds, finished or not; nothing is committed.

        From another thread it takes effect after the current step.  May be called again.
        """
        ...

    @property
    def has_backlog(self) -> bool:
        """
        Whether process_iter has input to take or audio to decode; cheap, never waits.

        ``while stream.has_backlog: stream.process_iter()`` drains the stream.  Audio too short for
        the policy's next step does not count once process_iter has taken it; start_silence or
        finish decodes it.  The last call of such a loop may find nothing left to do.
        """
        ...

    @property
    def stats(self) -> StreamStats:
        """The counters so far; cheap, never waits."""
        ...


@runtime_checkable
class SupportsSpeakerTurns(Protocol):
    """An online processor that takes speaker turns; declared as `speaker-turns`."""

    def new_speaker(self, change: ChangeSpeaker) -> Emission:
        """
        Commit every word so far and attribute words from `change.start` on to the new speaker.

        The clock is unaffected, and audio already inserted after `change.start` is kept.
        """
        ...


@runtime_checkable
class SupportsCatchUp(Protocol):
    """
    An online processor that can decode a backlog with less work, for a machine that fell behind.

    While it catches up, words may come later and may differ, and the result depends on when the
    audio came.  No audio is left out, a flush commits every word, and the clock is unaffected.
    `reset` ends it.
    """

    def begin_catch_up(self) -> None:
        """Decode with less work until `end_catch_up`; may be called again."""
        ...

    def end_catch_up(self) -> None:
        """Decode as usual again; may be called again."""
        ...


@runtime_checkable
class SupportsPreparedFlush(Protocol):
    """
    An online processor that can decode the end of an utterance before it is known to be the end.

    A session calls `prepare_flush` in the first moments of quiet.  If speech goes on, the work was
    in vain; if the quiet lasts, the flush returns the words at once.
    """

    def prepare_flush(self) -> Transcript | None:
        """
        Decode what a flush would decode now, keep the result, and return its words if it can.

        Nothing is committed, and neither the hypothesis nor `processed_up_to` changes.  The next
        flush returns exactly what it would have returned without this call.  Audio inserted in
        between makes the kept result useless.  A failure counts as that of any other call.
        """
        ...
