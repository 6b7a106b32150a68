"""Faults of pauses: SIL."""

from __future__ import annotations

from itertools import pairwise

import attrs
import numpy as np

from faulty_backends.base import (
    FaultyStream,
    LosingStream,
    again,
    alone,
    by_tests,
    each,
    edit,
    edited,
    end_of,
    in_sessions,
    without,
)
from wlk_core import SAMPLE_RATE, Transcript
from wlk_core.errors import BackendError


@alone("SIL-01")
class FlushesOnlyDecodedAudio(FaultyStream):
    """Leaves audio that no step has decoded for the next step."""

    held = ()
    has_stepped = False

    def changed(self, emission, call):
        if call == "start_silence" and not self.has_stepped:
            self.held = emission.committed
            return attrs.evolve(emission, committed=())
        if call != "process_iter":
            return emission
        self.has_stepped = True
        committed, self.held = (*self.held, *emission.committed), ()
        return attrs.evolve(emission, committed=committed)


class HoldingStream(FaultyStream):
    """A stream that holds back words and returns them with a flush."""

    held = ()

    def release(self, emission, kept):
        """Return *emission* with the words held so far, and hold back its last *kept* words."""
        words = (*self.held, *emission.committed)
        cut = len(words) - kept
        self.held = words[cut:]
        return attrs.evolve(emission, committed=words[:cut], stable_up_to=0.0)


@by_tests("SIL-01")
class SilenceReturnsThreeWords(HoldingStream):
    """Returns three words at most from start_silence, and the others with the next call."""

    def changed(self, emission, call):
        total = len(self.held) + len(emission.committed)
        return self.release(emission, max(0, total - 3) if call == "start_silence" else 0)


@by_tests("RES-03")
class HoldsBackAfterFifthWord(HoldingStream):
    """Holds back every word after the fifth until a flush, and shows it nowhere."""

    def changed(self, emission, call):
        total = len(self.held) + len(emission.committed)
        return self.release(emission, 0 if call != "process_iter" or self.words < 5 else total)


@by_tests("RES-03")
class HoldsBackConnectedWords(HoldingStream):
    """Holds back three or more connected words until the next pause, and shows them nowhere."""

    def changed(self, emission, call):
        words = (*self.held, *emission.committed)
        pauses = [
            n for n, (one, two) in enumerate(pairwise(words), 1) if two.start - one.end > 0.05
        ]
        connected = len(words) - max(pauses, default=0)
        is_held = call == "process_iter" and connected > 2
        return self.release(emission, connected if is_held else 0)

    def shown(self, tokens):
        return () if self.held else tokens


@by_tests("SIL-01")
def silence_loses_word_at_the_end(stream, emission, call):
    """Drops the last word of start_silence if no audio follows it."""
    if call != "start_silence" or not emission.committed:
        return emission
    is_last = emission.committed[-1].end >= emission.processed_up_to - 0.01
    return attrs.evolve(emission, committed=emission.committed[:-1]) if is_last else emission


@by_tests("SIL-07")
class AlignAttLosesWordAfterQuiet(FaultyStream):
    """Drops the first word after a pause with AlignAtt, if seconds of quiet came before it."""

    quiet = False

    def received(self, audio):
        self.quiet = isinstance(audio, np.ndarray) and len(audio) >= 8000 and not np.any(audio)
        return audio

    def changed(self, emission, call):
        if call == "start_silence":
            self.is_due = self.quiet and self.policy == "alignatt"
        return without(emission) if self.strikes(emission) else emission


@by_tests("SIL-03", on="waited")
def ignores_jitter(stream, seconds):
    """Takes a pause of less than 40 ms for jitter of the caller's clock."""
    return seconds if seconds > 0.04 else 0.0


@by_tests("ERR-02")
class HidesFailedPreparation(FaultyStream):
    """Drops the last word of a flush whose preparation failed, and hides the failure."""

    def prepare_flush(self):
        try:
            self.stream.prepare_flush()
        except BackendError:
            self.is_due = True

    def changed(self, emission, call):
        if call == "process_iter" or not self.strikes(emission):
            return emission
        return attrs.evolve(emission, committed=emission.committed[:-1])


@by_tests("SIL-01")
class PreparesByFlushing(FaultyStream):
    """Flushes when a flush is prepared, and returns those words with the next call."""

    flushed = ()

    def prepare_flush(self):
        self.flushed += self.stream.start_silence().committed

    def changed(self, emission, call):
        flushed, self.flushed = self.flushed, ()
        return attrs.evolve(emission, committed=(*flushed, *emission.committed))


@by_tests("SIL-01")
class KeepsWhatWasPreparedOverReset(FaultyStream):
    """Drops the first word of a prepared flush if another one was prepared before a reset."""

    lasting = (*FaultyStream.lasting, "times")
    times = 0

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.times += 1
        self.is_due = self.times > 1 and self.resets > 0

    def changed(self, emission, call):
        return without(emission) if call != "process_iter" and self.strikes(emission) else emission


@by_tests("SIL-01")
class KeepsAnAnswerForTooLong(FaultyStream):
    """Drops the last word of a flush if one was prepared before the last audio came."""

    prepared_at = None

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.prepared_at = self.chunks if self.prepared_at is None else self.prepared_at

    def changed(self, emission, call):
        is_old = self.prepared_at is not None and self.prepared_at < self.chunks
        return without(emission) if is_old and call == "start_silence" else emission


@by_tests("SIL-01")
class KeepsAnAnswerUntilTheNextStep(FaultyStream):
    """Drops the first word of a flush if audio, but no step, came after it was prepared."""

    prepared_at = None

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.prepared_at = self.chunks

    def changed(self, emission, call):
        is_old = self.prepared_at is not None and self.prepared_at < self.chunks
        self.prepared_at = None
        return without(emission) if is_old and call == "start_silence" else emission


@by_tests("SIL-01")
class KeepsAnAnswerOverShortChunks(FaultyStream):
    """Drops the last word of a flush that was prepared before chunks of less than 0.1 s came."""

    is_prepared = is_old = False

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.is_prepared, self.is_old = True, False

    def received(self, audio):
        is_short = 0 < np.size(audio) < SAMPLE_RATE // 10
        self.is_prepared = self.is_prepared and is_short
        self.is_old = self.is_prepared
        return audio

    def changed(self, emission, call):
        is_old, self.is_prepared, self.is_old = self.is_old, False, False
        return without(emission) if is_old and call == "start_silence" else emission


@by_tests("SIL-01")
class ShowsWhatItPrepared(FaultyStream):
    """Has an empty hypothesis from the first prepared flush on."""

    has_prepared = False

    def prepare_flush(self):
        self.has_prepared = True

    def get_buffer(self):
        return Transcript() if self.has_prepared else self.stream.get_buffer()


@alone("SIL-02")
class RepeatsWordAtSilence(FaultyStream):
    """Commits the last word again at a second start_silence."""

    last, at = (), 0  # the number of chunks before it

    def changed(self, emission, call):
        if call != "start_silence":
            return emission
        if not emission.committed and self.at == self.chunks:
            return attrs.evolve(emission, committed=self.last)
        self.last, self.at = emission.committed[-1:], self.chunks
        return emission


@by_tests("SIL-02")
class RepeatsWordAfterPauseWithoutAudio(FaultyStream):
    """Commits the last word again at a start_silence that follows an end_silence directly."""

    last = ()

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.is_due = self.is_due and not len(audio)

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.is_due = True

    def changed(self, emission, call):
        self.last = emission.committed[-1:] or self.last
        is_struck = call == "start_silence" and self.is_due
        return attrs.evolve(emission, committed=self.last) if is_struck else emission


@in_sessions("SIL-02")
class RepeatsWordAtFourthFlush(FaultyStream):
    """Commits the last word again at a second start_silence, from the fourth flush on."""

    last = ()

    def changed(self, emission, call):
        is_struck = call == "start_silence" and self.flushes >= 4 and not emission.committed
        self.last = emission.committed[-1:] or self.last
        return attrs.evolve(emission, committed=self.last) if is_struck else emission


@alone("SIL-03", on="end_silence")
def applies_offset(stream, seconds, offset=None):
    """Moves the clock by the offset as well."""
    FaultyStream.end_silence(stream, max(0.0, seconds + (offset or 0.0)), offset)


@alone("SIL-03", on="end_silence")
def accepts_any_duration(stream, seconds, offset=None):
    """Accepts a negative or undefined duration as zero."""
    if seconds >= 0:
        FaultyStream.end_silence(stream, seconds, offset)


@by_tests("SIL-03")
class EmptySilenceEndsUtterance(FaultyStream):
    """Flushes at a silence of 0, and returns the words with the next call."""

    flushed = ()

    def end_silence(self, seconds, offset=None):
        if seconds == 0:
            self.flushed += self.stream.start_silence().committed
        super().end_silence(seconds, offset)

    def changed(self, emission, call):
        flushed, self.flushed = self.flushed, ()
        return attrs.evolve(emission, committed=flushed + emission.committed)


@by_tests("SIL-03", on="waited")
def ends_long_silence_early(stream, seconds):
    """Counts an hour of a silence that is longer."""
    return min(seconds, 3600.0)


@by_tests("SIL-03", on="waited")
def counts_longest_leading_silence(stream, seconds):
    """Moves the clock of a stream without audio to the length of the longest silence."""
    is_leading = stream.lead and not stream.stream.stats.audio_seconds
    return max(0.0, seconds - stream.lead) if is_leading else seconds


@by_tests("SIL-03")
class ReplacesWaitingSilence(FaultyStream):
    """Replaces a silence by the next one if no step has begun between them."""

    waiting = 0.0

    def waited(self, seconds):
        waiting = self.waiting if self.has_backlog else 0.0
        self.waiting = max(waiting, seconds)
        return max(0.0, seconds - waiting)

    def received(self, audio):
        self.waiting = 0.0
        return audio

    def made(self, call, make):
        self.waiting = 0.0
        return super().made(call, make)


@in_sessions("SIL-03", on="end_silence")
def accepts_negative_silence_later(stream, seconds, offset=None):
    """Ignores a negative silence instead of refusing it, after the first flush."""
    if not stream.flushes or not seconds < 0:
        FaultyStream.end_silence(stream, seconds, offset)


@in_sessions("SIL-03", on="end_silence")
def accepts_nan_silence_later(stream, seconds, offset=None):
    """Treats a silence of NaN seconds as none, once a word is committed."""
    if seconds == seconds or not stream.words:  # noqa: PLR0124 -- not NaN
        FaultyStream.end_silence(stream, seconds, offset)


@alone("SIL-04", on="waited")
def drifts(stream, seconds):
    """Moves the clock by a tenth of a microsecond too much at each silence."""
    return seconds + 1e-7 if seconds > 0 else seconds


@by_tests("SIL-04", on="waited")
def drifts_after_fifty_silences(stream, seconds):
    """Moves the clock by 10 ms too much at the fifty-first silence and each later one."""
    return seconds + (0.01 if stream.silences >= 50 else 0.0)


@by_tests("SIL-04", on="waited")
def rounds_silences_to_milliseconds(stream, seconds):
    """Moves the clock by whole milliseconds."""
    return round(seconds, 3)


@alone("SIL-05")
class StartsInPause(FaultyStream):
    """Starts a word in the pause before its audio."""

    pause_end = None  # -1 while it is not known

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.pause_end = -1.0 if self.stream.stats.audio_seconds and seconds else None

    def changed(self, emission, call):
        """Report no time as stable."""
        if self.pause_end == -1.0 and call != "start_silence":
            self.pause_end = emission.stable_up_to
        if emission.committed and self.pause_end is not None:
            if abs(emission.committed[0].start - self.pause_end) < 0.01:
                emission = edited(emission, 0, start=lambda start: start - 0.05)
            self.pause_end = None
        return attrs.evolve(emission, stable_up_to=0.0)


@by_tests("SIL-06")
def joins_words_over_short_pause(stream, emission, call):
    """Ignores a pause of less than a fifth of a second, and joins the words around it."""
    is_due = stream.words and 0 < stream.pause < 0.2
    return edited(emission, 0, text=str.strip) if is_due else emission


@by_tests("SIL-06")
def begins_sentence_after_five_seconds(stream, emission, call):
    """Writes the first word after a pause of five seconds or more in title case."""
    is_due = stream.words and stream.pause >= 5
    return edited(emission, 0, text=str.title) if is_due else emission


def repeating(emission):
    """Return *emission* with its first word twice."""
    first = emission.committed[:1]
    return attrs.evolve(emission, committed=(*first, *map(again, first), *emission.committed[1:]))


@alone("SIL-07")
def joins_words_over_pause(stream, emission, call):
    """Loses the space between the words around a pause."""
    return edited(emission, 0, text=str.strip) if stream.pause == 2.0 else emission


@alone("SIL-07")
def loses_word_at_pause(stream, emission, call):
    """Loses the word after a pause."""
    return without(emission) if stream.pause == 2.0 else emission


@alone("SIL-07")
def repeats_word_at_pause(stream, emission, call):
    """Commits the word after a pause twice."""
    return repeating(emission) if stream.pause == 2.0 else emission


@in_sessions("SIL-07")
class RepeatsWordAfterThirdPause(FaultyStream):
    """Commits the first word after the third pause twice."""

    is_due = True

    def changed(self, emission, call):
        is_struck = self.silences >= 3 and self.strikes(emission)
        return repeating(emission) if is_struck else emission


@in_sessions("SIL-07")
def joins_words_after_fifth_pause(stream, emission, call):
    """Loses the space before the first word after the fifth pause."""
    if stream.silences != 5 or not emission.committed:
        return emission
    stream.silences += 1
    return edited(emission, 0, text=str.strip)


@in_sessions("SIL-07")
def loses_word_after_an_hour(stream, emission, call):
    """Loses the first word after a silence of an hour or more."""
    return without(emission) if stream.pause >= 3600 else emission


@in_sessions("SIL-07")
class LosesWordAfterEmptySilence(LosingStream):
    """Loses the first word after a silence of no length, once a word is committed."""

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.is_due = self.is_due or (seconds == 0 and self.words > 0)


@by_tests("SIL-01")
class SkipsShortAudioAfterPreparedFlush(FaultyStream):
    """Drops the last word of a flush if a quarter of a second or less came after preparing it."""

    since = None  # samples since a flush was prepared

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.since = 0

    def received(self, audio):
        self.since = None if self.since is None else self.since + len(audio)
        return audio

    def changed(self, emission, call):
        since, self.since = self.since, None
        is_skipped = call == "start_silence" and since is not None and 0 < since <= 4000
        return attrs.evolve(emission, committed=emission.committed[:-1]) if is_skipped else emission


@by_tests("SIL-01")
class FlushPadsForDefaultTick(FaultyStream):
    """Drops a word at the very end of a silence if the tick is not the default."""

    def changed(self, emission, call):
        if call != "start_silence" or not emission.committed or self.tick is None:
            return emission
        is_last = emission.committed[-1].end >= emission.processed_up_to - 0.1
        return attrs.evolve(emission, committed=emission.committed[:-1]) if is_last else emission


@by_tests("SIL-01")
class FlushReturnsTwelveSeconds(FaultyStream):
    """Returns the words of twelve seconds at a silence or turn, the others with the next call."""

    kept = ()

    def changed(self, emission, call):
        words, self.kept = (*self.kept, *emission.committed), ()
        if words and call in ("start_silence", "new_speaker"):
            count = sum(word.start < words[0].start + 12 for word in words)
            words, self.kept = words[:count], words[count:]
        return attrs.evolve(emission, committed=words)


@by_tests("SIL-03")
class RefusesWholeSeconds(FaultyStream):
    """Raises TypeError for a silence whose length is an integer."""

    def waited(self, seconds):
        if isinstance(seconds, int):
            raise TypeError("expected a float")
        return seconds


@by_tests("SIL-05")
class MovesUndecodedWords(FaultyStream):
    """Moves words whose audio no step has decoded by the pause after them."""

    moves = ()

    def end_silence(self, seconds, offset=None):
        if self.stream.has_backlog:
            self.moves += ((end_of(self), seconds),)
        super().end_silence(seconds, offset)

    def changed(self, emission, call):
        def moved(token):
            shift = sum(seconds for end, seconds in self.moves if token.end <= end)
            return edit(token, start=token.start + shift, end=token.end + shift)

        return each(emission, moved)
