"""Faults of speaker turns and languages: SPK and LANG."""

from __future__ import annotations

import attrs

from faulty_backends.base import (
    FaultyStream,
    alone,
    by_tests,
    each,
    edit,
    edited,
    end_of,
    in_sessions,
)

FAR = 3.0  # seconds in the past
LONG = 5.0  # seconds of silence after which some of these streams change


@alone("SPK-01")
def drops_tokens_of_turn(stream, emission, call):
    """Flushes at a turn and drops the tokens."""
    return attrs.evolve(emission, committed=()) if call == "new_speaker" else emission


@by_tests("SPK-01", on="new_speaker")
def loses_audio_after_turn(stream, change):
    """Drops the words that start after the time of a turn and were already inserted."""
    emission = FaultyStream.new_speaker(stream, change)
    kept = (token for token in emission.committed if token.start < change.start)
    return attrs.evolve(emission, committed=tuple(kept))


@by_tests("SPK-02")
class TurnAheadReplacesSpeaker(FaultyStream):
    """Forgets the present speaker when a turn is announced that lies ahead."""

    ahead = 0.0

    def new_speaker(self, change):
        self.ahead = max(self.ahead, change.start if change.start > end_of(self) + 0.1 else 0.0)
        return super().new_speaker(change)

    def changed(self, emission, call):
        return each(
            emission, lambda token: edit(token, speaker=None) if token.start < self.ahead else token
        )


@by_tests("SPK-02")
class ForgetsTurnAheadAtFlush(FaultyStream):
    """Forgets a turn that lies ahead at the next flush, and goes on with the speaker before."""

    ahead = speaker = None

    def new_speaker(self, change):
        is_ahead = change.start > end_of(self) + 0.1
        self.ahead, self.speaker = (change, self.speaker) if is_ahead else (None, change.speaker)
        return super().new_speaker(change)

    def changed(self, emission, call):
        if self.ahead is not None and self.has_flushed:
            start, speaker = self.ahead.start, self.speaker
            emission = each(emission, lambda t: edit(t, speaker=speaker) if t.start >= start else t)
        self.has_flushed = self.has_flushed or call in ("start_silence", "is_last")
        return emission

    has_flushed = False


@by_tests("SPK-02")
class TakesZeroForNobody(FaultyStream):
    """Goes on with the speaker before when a turn is that of speaker 0."""

    speaker = None

    def new_speaker(self, change):
        self.speaker = change.speaker or self.speaker
        is_known = self.speaker is not None
        return super().new_speaker(edit(change, speaker=self.speaker) if is_known else change)


@by_tests("SPK-02")
class ForgetsSpeakerInLongPause(FaultyStream):
    """Forgets the speaker in a pause of half a minute or more, until the next turn."""

    forgotten = 0.0

    def waited(self, seconds):
        self.forgotten = end_of(self) + seconds if seconds >= 30 else self.forgotten
        return seconds

    def new_speaker(self, change):
        emission = super().new_speaker(change)
        self.forgotten = 0.0
        return emission

    def changed(self, emission, call):
        from_then = self.forgotten or float("inf")
        return each(emission, lambda t: edit(t, speaker=None) if t.start >= from_then else t)


@in_sessions("SPK-01", on="new_speaker")
def loses_word_at_past_turn(stream, change):
    """Drops the last word of a turn that lies more than a second in the past."""
    is_past = change.start < end_of(stream) - 1
    emission = FaultyStream.new_speaker(stream, change)
    return attrs.evolve(emission, committed=emission.committed[:-1]) if is_past else emission


class _EndOfProgram(BaseException):
    """Not an Exception, as some libraries raise them."""


@in_sessions("SPK-01", on="new_speaker")
def raises_base_exception_at_turn(stream, change):
    """Raises a BaseException at a speaker turn after two flushes."""
    if stream.flushes >= 2:
        raise _EndOfProgram
    return FaultyStream.new_speaker(stream, change)


class AfterLongSilence(FaultyStream):
    """A stream that changes after a long silence."""

    has_changed = False

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.has_changed = self.has_changed or seconds >= LONG


@alone("SPK-02")
class DropsSpeakerAtSilence(AfterLongSilence):
    """Drops the speaker at a long silence."""

    def changed(self, emission, call):
        self.has_changed = self.has_changed and call != "new_speaker"
        return attributed(emission, None) if self.has_changed else emission


def attributed(emission, speaker):
    """Return *emission* with the words of *speaker*."""
    return each(emission, lambda token: edit(token, speaker=speaker))


def spoken_in(emission, language, first=0):
    """Return *emission* with *language* from the word at *first* on."""
    for index in range(max(0, first), len(emission.committed)):
        emission = edited(emission, index, detected_language=language)
    return emission


@in_sessions("SPK-02")
def speaker_zero_is_none(stream, emission, call):
    """Treats speaker 0 as no speaker."""
    return each(emission, lambda token: edit(token, speaker=token.speaker or None))


@in_sessions("SPK-02", on="new_speaker")
def applies_future_turn_at_once(stream, change):
    """Attributes all later words to the speaker of a turn that is still in the future."""
    start = min(change.start, end_of(stream))
    return FaultyStream.new_speaker(stream, attrs.evolve(change, start=start))


@in_sessions("SPK-02", on="new_speaker")
def has_four_speakers(stream, change):
    """Keeps its speakers in four slots, so that the fifth one is the first again."""
    if isinstance(change.speaker, int):
        change = attrs.evolve(change, speaker=change.speaker % 4)
    return FaultyStream.new_speaker(stream, change)


@in_sessions("SPK-02")
class IgnoresTurnFarBack(FaultyStream):
    """Flushes at a turn that began more than three seconds ago, and keeps the old speaker."""

    end = 0.0

    def changed(self, emission, call):
        self.end = emission.processed_up_to
        return emission

    def new_speaker(self, change):
        is_far = self.end - change.start > FAR
        return super().process_iter(True) if is_far else super().new_speaker(change)


@in_sessions("SPK-02")
class ForgetsTurnInSilence(FaultyStream):
    """Forgets a turn between start_silence and end_silence when the silence ends."""

    is_silent = is_lost = False
    speaker = before = None

    def start_silence(self):
        emission = super().start_silence()
        self.is_silent = True
        return emission

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.is_silent = False

    def new_speaker(self, change):
        self.is_lost = self.is_silent
        self.before, self.speaker = self.speaker, change.speaker
        return super().new_speaker(change)

    def changed(self, emission, call):
        return attributed(emission, self.before) if self.is_lost else emission


@alone("LANG-01")
class DropsLanguageAtSilence(AfterLongSilence):
    """Drops the language at a long silence."""

    def changed(self, emission, call):
        return spoken_in(emission, None) if self.has_changed else emission


@by_tests("LANG-01")
class ForgetsLanguageAfterNoise(FaultyStream):
    """Reports English, whatever language is forced, after an utterance without words."""

    has_words = True

    def changed(self, emission, call):
        self.has_words = self.has_words or bool(emission.committed)
        if call == "start_silence":
            self.is_due, self.has_words = self.is_due or not self.has_words, False
        return spoken_in(emission, "en") if self.is_due and self.language else emission


@by_tests("LANG-01")
class ForgetsLanguageAfterLongNoise(FaultyStream):
    """Reports English, whatever language is forced, after four seconds without words."""

    flushed = 0.0  # seconds of audio at the last flush

    def changed(self, emission, call):
        if call == "start_silence":
            seconds = self.stream.stats.audio_seconds
            self.is_due = self.is_due or (not emission.committed and seconds - self.flushed > 4)
            self.flushed = seconds
        return spoken_in(emission, "en") if self.is_due and self.language else emission


@alone("LANG-01")
def reports_language_name(stream, emission, call):
    """Reports a detected language by its name instead of its code."""
    return emission if stream.language else spoken_in(emission, "English")


@in_sessions("LANG-01")
def forgets_language_after_ten_words(stream, emission, call):
    """Reports no language from the eleventh word on, a forced one included."""
    return spoken_in(emission, None, 10 - stream.words)


@in_sessions("LANG-01")
def forgets_language_at_reset(stream, emission, call):
    """Reports English after a reset, whatever language is forced."""
    return spoken_in(emission, "en") if stream.resets else emission


@in_sessions("LANG-01")
class ReportsEnglishAfterLongSilence(FaultyStream):
    """Reports a forced language as English after a silence of more than 20 s."""

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.is_due = self.is_due or seconds > 20

    def changed(self, emission, call):
        return spoken_in(emission, "en") if self.is_due and self.language else emission


@alone("LANG-02", tiers=("speech",))
def detects_other_language(stream, emission, call):
    """Reports English speech as German if no language is forced."""
    return emission if stream.language else spoken_in(emission, "de")


@by_tests("LANG-02", tiers=("speech",))
def switches_language_after_six_words(stream, emission, call):
    """Reports English speech as German from the seventh word on."""
    return emission if stream.language else spoken_in(emission, "de", 6 - stream.words)


@alone("LANG-02", tiers=("speech",))
def leaks_header(stream, emission, call):
    """Puts the header of the model into the text of a stream of nine words."""
    is_due = call == "finish" and stream.words + len(emission.committed) == 9
    return edited(emission, -1, text=" language English") if is_due else emission


@by_tests("SPK-02")
class ShowsNoSpeaker(FaultyStream):
    """Shows its hypothesis without a speaker."""

    def shown(self, tokens):
        return tuple(edit(token, speaker=None) for token in tokens)


@by_tests("SPK-02")
def takes_negative_speaker_for_none(stream, emission, call):
    """Reports no speaker for a negative number."""
    return each(
        emission,
        lambda token: edit(token, speaker=None) if str(token.speaker).startswith("-") else token,
    )


@by_tests("SPK-02")
def takes_digits_for_number(stream, emission, call):
    """Reports the speaker "2" as the number 2."""
    return each(
        emission,
        lambda token: edit(token, speaker=2) if token.speaker == "2" else token,
    )


@by_tests("LANG-01")
class ForgetsLanguageAtTurn(FaultyStream):
    """Reports English after a turn, whatever language is forced."""

    has_turned = False

    def new_speaker(self, change):
        emission = super().new_speaker(change)
        self.has_turned = True
        return emission

    def changed(self, emission, call):
        return spoken_in(emission, "en") if self.has_turned and self.language else emission
