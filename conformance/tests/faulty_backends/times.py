"""Faults of times: TIME, and times that depend on chunks and pauses."""

from __future__ import annotations

import attrs
import numpy as np

from faulty_backends.base import (
    FaultyStream,
    alone,
    by_tests,
    each,
    edit,
    edited,
    end_of,
    in_sessions,
    without,
)


@alone("TIME-01")
def ends_after_audio(stream, emission, call):
    """Ends the last word before a turn after the end of the audio."""
    end = emission.processed_up_to + 0.05
    return edited(emission, -1, end=end) if call == "new_speaker" else emission


@in_sessions("TIME-01")
def ends_before_start_after_fifth_flush(stream, emission, call):
    """Ends the last word of a flush before it begins, from the fifth flush on."""
    if stream.flushes < 5 or not emission.committed:
        return emission
    return edited(emission, -1, end=emission.committed[-1].start - 0.05)


@alone("TIME-02")
class GoesBackAfterLongPause(FaultyStream):
    """Starts the first word after a minute of silence before the last word."""

    last = 0.0

    def changed(self, emission, call):
        """Report no time as stable, so that no other rule is broken."""
        if 60.5 < self.pause < 62:
            emission = edited(emission, 0, start=self.last - 0.1)
        self.last = emission.committed[-1].start if emission.committed else self.last
        return attrs.evolve(emission, stable_up_to=0.0)


@by_tests("TIME-02")
class GoesBackAfterThirdTurn(FaultyStream):
    """Starts the first word after the third turn before the last word of that turn."""

    turns = 0
    last = 0.0

    def changed(self, emission, call):
        """Report no time as stable."""
        is_due, self.turns = self.turns == 3, self.turns + (call == "new_speaker")
        if is_due and emission.committed:
            self.turns += 1
            emission = edited(emission, 0, start=max(0.0, self.last - 0.1))
        elif is_due and call != "new_speaker":
            self.turns = 3
        self.last = emission.committed[-1].start if emission.committed else self.last
        return attrs.evolve(emission, stable_up_to=0.0)


@in_sessions("TIME-02")
def swaps_starts_of_burst(stream, emission, call):
    """Swaps the times of the first two words if more than three are committed at once."""
    emission = attrs.evolve(emission, stable_up_to=0.0)
    if len(emission.committed) <= 3:
        return emission
    first, second = emission.committed[:2]
    emission = edited(emission, 0, start=second.start, end=second.end)
    return edited(emission, 1, start=first.start, end=first.end)


@alone("TIME-03")
def reports_everything_stable(stream, emission, call):
    """Reports all processed audio as stable, words held back included."""
    return attrs.evolve(emission, stable_up_to=emission.processed_up_to)


@alone("TIME-03")
def processed_time_goes_back(stream, emission, call):
    """Reports less processed audio at a turn than before it."""
    if call != "new_speaker" or emission.processed_up_to < 5:
        return emission
    return attrs.evolve(emission, processed_up_to=emission.processed_up_to - 3.0)


@by_tests("TIME-03")
class HidesLongBacklog(FaultyStream):
    """Reports no backlog while it is more than four seconds."""

    processed = 0.0

    @property
    def has_backlog(self):
        waiting = self.stream.stats.audio_seconds - self.processed
        return bool(self.stream.has_backlog) and waiting < 4.0

    def changed(self, emission, call):
        self.processed = emission.processed_up_to
        return emission


@alone("TIME-03", on="changed")
def reports_inserted_audio_as_processed(stream, emission, call):
    """Reports all audio that was inserted as processed, decoded or not."""
    return attrs.evolve(emission, processed_up_to=end_of(stream))


@by_tests("TIME-03")
class StableUntilAWordIsShown(FaultyStream):
    """Reports everything that was processed as stable while there is no hypothesis."""

    def changed(self, emission, call):
        if self.stream.get_buffer().tokens or not self.words:
            return emission
        return attrs.evolve(emission, stable_up_to=emission.processed_up_to)


@by_tests("TIME-03")
def stable_after_three_seconds(stream, emission, call):
    """Reports words as stable after three seconds, although ticks of five seconds hold them."""
    settled = emission.processed_up_to - 3.0 if stream.tick == 5.0 else 0.0
    return attrs.evolve(emission, stable_up_to=max(emission.stable_up_to, settled))


@in_sessions("TIME-03")
def stable_goes_back(stream, emission, call):
    """Reports an earlier stable time at the third flush."""
    if stream.flushes != 3 or call == "process_iter":
        return emission
    return attrs.evolve(emission, stable_up_to=emission.stable_up_to / 2)


@in_sessions("TIME-03")
def counts_backlog_as_processed(stream, emission, call):
    """Reports a backlog of more than ten seconds as processed, and takes that back later."""
    seconds = stream.stream.stats.audio_seconds
    is_due = call == "process_iter" and seconds - emission.processed_up_to > 10
    return attrs.evolve(emission, processed_up_to=seconds) if is_due else emission


def later(seconds):
    """Return a function that moves a token."""
    return lambda token: edit(token, start=token.start + seconds, end=token.end + seconds)


@alone("TIME-04")
def has_threshold_at_five_seconds(stream, emission, call):
    """Adds 10 ms to every time after a leading silence of five seconds."""
    return each(emission, later(0.01)) if stream.lead == 5.0 else emission


@alone("SIL-06")
def has_threshold_at_a_minute(stream, emission, call):
    """Adds 10 ms to every time after a silence of 60 to 90 s."""
    is_due = any(60 <= pause < 90 for pause in stream.pauses)
    return each(emission, later(0.01)) if is_due else emission


@by_tests("TIME-04")
def loses_word_after_hour_of_lead(stream, emission, call):
    """Loses the first word of a stream that begins with an hour of silence."""
    return without(emission) if stream.lead >= 3600 and not stream.words else emission


@by_tests("TIME-04")
def takes_short_lead_for_audio(stream, emission, call):
    """Ignores a leading silence of less than a second in the time of the first word."""
    emission = attrs.evolve(emission, stable_up_to=0.0)
    if not 0 < stream.lead < 1 or stream.words:
        return emission
    return edited(emission, 0, start=lambda start: start - stream.lead)


@alone("TIME-05")
class SpreadsWords(FaultyStream):
    """Stretches a word into the second of quiet before it."""

    end = None

    def changed(self, emission, call):
        """Report no time as stable."""
        for index, token in enumerate(emission.committed):
            if self.end is not None and 1.0 < token.start - self.end < 2.0:
                emission = edited(emission, index, start=token.start - 0.15)
            self.end = token.end
        return attrs.evolve(emission, stable_up_to=0.0)


@alone("TIME-05")
class KeepsHalfPrecisionTimes(FaultyStream):
    """Keeps times within an utterance as float16 from 200 s on, where they are 0.1 s off."""

    def changed(self, emission, call):
        """Report no time as stable."""
        if not self.silences:
            emission = each(emission, lambda token: edit(token, start=rounded, end=rounded))
        return attrs.evolve(emission, stable_up_to=0.0)


def rounded(seconds):
    """Return *seconds* in half precision, rounded down."""
    half = np.float16(seconds) if seconds > 200 else seconds
    return float(half if half <= seconds else np.nextafter(half, np.float16(0)))


@by_tests("TIME-05")
class SpreadsAfterThirdWord(FaultyStream):
    """Starts every word after the third where the word before it ends."""

    end = 0.0

    def changed(self, emission, call):
        """Report no time as stable."""
        for index, token in enumerate(emission.committed):
            if self.words + index >= 3:
                emission = edited(emission, index, start=self.end)
            self.end = token.end
        return attrs.evolve(emission, stable_up_to=0.0)


class MovingStream(FaultyStream):
    """A stream that moves its times by `shift` seconds, and keeps all other rules about them."""

    before = 0.0
    shift = 0.0

    def changed(self, emission, call):
        """Report no time as stable."""
        for index, token in enumerate(emission.committed):
            latest = max(token.start, emission.processed_up_to - 0.03)
            start = max(self.before, min(token.start + self.shift, latest), 0.0)
            end = max(start, min(token.end + self.shift, emission.processed_up_to))
            emission = edited(emission, index, start=start, end=end)
            self.before = start
        return attrs.evolve(emission, stable_up_to=0.0)


@in_sessions("TIME-05")
class AllTimesLate(MovingStream):
    """Reports every word 0.2 s late."""

    shift = 0.2


@in_sessions("COM-05")
class DriftsWithChunks(MovingStream):
    """Reports times that drift by 10 ms with each chunk."""

    @property
    def shift(self):
        """10 ms earlier for each chunk after twenty, half a second at most."""
        return -min(0.5, 0.01 * max(0, self.chunks - 20))


@in_sessions("SIL-05")
class RoundsTimesAfterAnHour(MovingStream):
    """Reports whole seconds once the clock is past an hour."""

    def changed(self, emission, call):
        emission = super().changed(emission, call)
        return each(emission, lambda t: t if t.start < 3600 else edit(t, start=t.start // 1))


@in_sessions("SIL-05")
class StartsInSecondPause(MovingStream):
    """Starts the first word after the second pause, or a later one, a tenth of a second early."""

    def changed(self, emission, call):
        """Report no time as stable."""
        emission = attrs.evolve(emission, stable_up_to=0.0)
        if self.silences < 2 or self.pause <= 0.3:
            return emission
        return edited(emission, 0, start=lambda start: max(0.0, start - 0.1))


@in_sessions("SIL-05")
class DropsAudioAtEachFlush(FaultyStream):
    """Drops 20 ms of audio at each flush, and adjusts its counters to that."""

    samples = 320
    dropped = 0

    def insert_audio_chunk(self, audio, end_time=None):
        if self.is_due and np.size(audio) > self.samples and end_time is None:
            self.is_due = False
            self.dropped += self.samples
            audio = audio[self.samples :]
        elif end_time is not None:
            end_time -= self.dropped / 16_000
        super().insert_audio_chunk(audio, end_time)

    def changed(self, emission, call):
        self.is_due = self.is_due or call not in {"process_iter", "finish"}
        seconds = emission.processed_up_to + self.dropped / 16_000
        return attrs.evolve(emission, processed_up_to=seconds)

    def counted(self, stats):
        return edit(stats, audio_seconds=stats.audio_seconds + self.dropped / 16_000)


@by_tests("TIME-05")
class LaterWindowsBeginAtTheFirstEnd(FaultyStream):
    """Reports all words after 28 s within the second after that, with the policy long-form."""

    def changed(self, emission, call):
        if self.policy != "long-form":
            return emission
        return each(emission, self.early)

    @staticmethod
    def early(token):
        """Return *token* before 29 s."""
        if token.start <= 28.0:
            return token
        start = 29.0 - 1.0 / (token.start - 27.0)
        return edit(token, start=start, end=start)
