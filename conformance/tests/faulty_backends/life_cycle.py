"""Faults of streams from the opening to finish and reset, and of warmups: LIFE-01 to LIFE-09."""

from __future__ import annotations

from contextlib import suppress

import attrs
import numpy as np

from faulty_backends.base import (
    FaultyBackend,
    FaultyStream,
    LosingStream,
    alone,
    by_tests,
    each,
    edit,
    edited,
    in_sessions,
    without,
)
from wlk_conformance import EngineFault, EngineFaults
from wlk_conformance.scripted import ScriptedBackend
from wlk_core import SAMPLE_RATE, ASRToken, Emission
from wlk_core.errors import StreamClosed

CONTEXT = 75.0  # seconds after which a faulty model reaches its limit
CONTEXT_WORDS = 150
PREFIX = (ASRToken(0.0, 0.0, "you", 1.0),)


@alone("LIFE-01")
def commits_before_audio(stream, emission, call):
    """Commits a word before any audio was inserted."""
    is_due = call == "process_iter" and not stream.stream.stats.audio_seconds
    return attrs.evolve(emission, committed=PREFIX) if is_due else emission


@by_tests("LIFE-01")
def commits_prefix_after_lead(stream, emission, call):
    """Commits a prefix after a leading silence, before any audio."""
    is_due = stream.silences and not stream.stream.stats.audio_seconds and call != "finish"
    return attrs.evolve(emission, committed=PREFIX) if is_due else emission


@in_sessions("LIFE-01")
def commits_prefix_after_reset(stream, emission, call):
    """Commits a prefix after a reset, before any audio."""
    is_due = stream.resets and not stream.stream.stats.audio_seconds and call != "finish"
    return attrs.evolve(emission, committed=PREFIX) if is_due else emission


@alone("LIFE-02")
def drops_short_rest(stream, emission, call):
    """Never decodes a stream shorter than a fifth of a second."""
    is_short = call == "finish" and 0 < stream.stream.stats.audio_seconds < 0.2
    return attrs.evolve(emission, committed=()) if is_short else emission


@by_tests("LIFE-02")
def finish_returns_three_words(stream, emission, call):
    """Returns three words at most from finish."""
    return (
        attrs.evolve(emission, committed=emission.committed[:3]) if call == "finish" else emission
    )


@by_tests("LIFE-02")
def finish_loses_word_at_the_end(stream, emission, call):
    """Drops the last word of finish if at most a frame of audio follows it."""
    if call != "finish" or not emission.committed:
        return emission
    is_last = emission.committed[-1].end >= emission.processed_up_to - 0.08
    return attrs.evolve(emission, committed=emission.committed[:-1]) if is_last else emission


@alone("LIFE-03")
class FinishesTwice(FaultyStream):
    """Commits the last word again at a second finish."""

    last = ()
    is_finished = False

    def changed(self, emission, call):
        if self.is_finished and call == "finish":
            return attrs.evolve(emission, committed=self.last)
        self.last = emission.committed[-1:] or self.last
        self.is_finished = call == "finish"
        return emission


@by_tests("LIFE-03")
class CountsWorkAtSecondFinish(FaultyStream):
    """Counts a forward pass at a second finish."""

    finishes = 0

    def changed(self, emission, call):
        if call == "finish":
            self.finishes += 1
        return emission

    def counted(self, stats):
        extra = max(0, self.finishes - 1)
        return edit(stats, decoder_forwards=(stats.decoder_forwards or 0) + extra)


@by_tests("LIFE-03", on="finish")
def decodes_again_at_second_finish(stream):
    """Calls its engine again at a second finish, and commits nothing."""
    if stream.stream._is_finished:
        stream.backend.engine_calls.wrap(int)()
    return FaultyStream.finish(stream)


@in_sessions("LIFE-03", on="finish")
def second_finish_runs_the_model(stream):
    """Runs its engine at a second finish after more than two flushes."""
    if stream.stream._is_finished and stream.flushes > 2:
        stream.backend.engine_calls.wrap(int)()
    return FaultyStream.finish(stream)


@alone("LIFE-04")
class AcceptsAudioAfterFinish(FaultyStream):
    """Accepts audio after finish and drops it."""

    is_closed = False

    def insert_audio_chunk(self, audio, end_time=None):
        try:
            super().insert_audio_chunk(audio, end_time)
        except StreamClosed:
            if self.is_closed:
                raise

    def close(self):
        self.is_closed = True
        self.stream.close()


@by_tests("IN-02")
@by_tests("IN-03")
@by_tests("LIFE-04")
class SkipsChunksWithoutSamples(FaultyStream):
    """Ignores a chunk without samples: its type, its end time, and whether the stream is over."""

    def insert_audio_chunk(self, audio, end_time=None):
        if np.size(audio):
            super().insert_audio_chunk(audio, end_time)


@by_tests("LIFE-04", on="finish")
def stays_open_without_audio(stream):
    """Leaves a stream open that is finished before any audio."""
    if not stream.stream.stats.audio_seconds:
        return stream.process_iter(is_last=True)
    return FaultyStream.finish(stream)


@by_tests("LIFE-04", on="end_silence")
def accepts_silence_after_finish(stream, seconds, offset=None):
    """Ignores a silence after finish instead of refusing it."""
    try:
        FaultyStream.end_silence(stream, seconds, offset)
    except StreamClosed:
        return


@by_tests("LIFE-04", on="new_speaker")
def accepts_turn_after_finish(stream, change):
    """Returns nothing for a speaker turn after finish instead of refusing it."""
    try:
        return FaultyStream.new_speaker(stream, change)
    except StreamClosed:
        return Emission((), stream.stream.stats.audio_seconds, 0.0)


@alone("LIFE-05", on="finish")
def decodes_padding_alone(stream):
    """Decodes its padding at finish although there was no audio."""
    if not stream.stream.stats.audio_seconds:
        stream.backend.engine_calls.wrap(list)()
    return FaultyStream.finish(stream)


@by_tests("LIFE-05", on="finish")
def runs_model_after_lead_alone(stream):
    """Runs its engine at a finish after a silence without audio."""
    if stream.silences and not stream.stream.stats.audio_seconds:
        stream.backend.engine_calls.wrap(int)()
    return FaultyStream.finish(stream)


@by_tests("LIFE-05", on="finish")
def raises_without_audio_after_reset(stream):
    """Raises at a finish without audio after a reset."""
    if stream.resets and not stream.stream.stats.audio_seconds:
        raise ValueError("no audio")
    return FaultyStream.finish(stream)


@by_tests("LIFE-05")
class CountsPaddingAtFinish(FaultyStream):
    """Counts a forward pass at a finish without audio."""

    extra = 0

    def changed(self, emission, call):
        self.extra = int(call == "finish" and not self.stream.stats.audio_seconds)
        return emission

    def counted(self, stats):
        return edit(stats, decoder_forwards=(stats.decoder_forwards or 0) + self.extra)


@alone("LIFE-06")
class KeepsSpeakerOverReset(FaultyStream):
    """Keeps the speaker over a reset."""

    lasting = (*FaultyStream.lasting, "speaker")
    speaker = None

    def new_speaker(self, change):
        self.speaker = change.speaker
        return super().new_speaker(change)

    def changed(self, emission, call):
        if not self.resets:
            return emission
        return each(emission, lambda token: edit(token, speaker=self.speaker))


@by_tests("LIFE-06")
class KeepsTurnsOverReset(FaultyStream):
    """Keeps the speaker turns over a reset, with their times."""

    lasting = (*FaultyStream.lasting, "turns")
    turns = ()

    def new_speaker(self, change):
        self.turns += (change,)
        return super().new_speaker(change)

    def speaker_of(self, token):
        """Return the speaker of the last turn before *token*."""
        speakers = (turn.speaker for turn in reversed(self.turns) if turn.start <= token.start)
        return next(speakers, token.speaker)

    def changed(self, emission, call):
        if not self.resets:
            return emission
        return each(emission, lambda token: edit(token, speaker=self.speaker_of(token)))


@by_tests("LIFE-06")
class KeepsCountersOverReset(FaultyStream):
    """Adds the forward passes before a reset to those after it."""

    lasting = (*FaultyStream.lasting, "extra")
    extra = 0

    def reset(self):
        self.extra += self.stream.stats.decoder_forwards or 0
        super().reset()

    def counted(self, stats):
        return edit(stats, decoder_forwards=(stats.decoder_forwards or 0) + self.extra)


@in_sessions("LIFE-06")
class LosesWordAfterReset(LosingStream):
    """Loses the first word after a reset."""

    def begin(self):
        self.is_due = self.resets > 0


@alone("LIFE-07")
class FinishesAtIsLast(FaultyStream):
    """Finishes the stream at process_iter(is_last=True)."""

    is_finished = False

    def finish(self):
        self.is_finished = True
        return super().finish()

    def process_iter(self, is_last=False):
        if is_last and self.stream.stats.audio_seconds and not self.is_finished:
            return self.finish()
        return super().process_iter(is_last)


@by_tests("LIFE-07", on="process_iter")
def is_last_takes_one_step(stream, is_last=False):
    """Treats process_iter(is_last=True) like any other step."""
    return FaultyStream.process_iter(stream)


@by_tests("LIFE-07", on="process_iter")
def names_its_parameter_otherwise(stream, last=False):
    """Has no parameter `is_last`."""
    return FaultyStream.process_iter(stream, last)


@in_sessions("LIFE-07")
class LosesWordAfterIsLast(FaultyStream):
    """Loses the first word after process_iter(is_last=True) if the hypothesis was empty."""

    def changed(self, emission, call):
        is_struck = self.strikes(emission)
        self.is_due = self.is_due or call == "is_last"
        return without(emission) if is_struck else emission


@alone("LIFE-08")
class LosesWordAtContextLimit(FaultyStream):
    """Loses the word that fills a context of many words, in a stream without a flush."""

    is_past = False

    def changed(self, emission, call):
        if call in {"start_silence", "is_last"} or emission.stable_up_to > CONTEXT + 10:
            self.is_past = True
        kept = []
        for token in emission.committed:
            if self.is_past or token.start <= CONTEXT or self.words < CONTEXT_WORDS:
                kept.append(token)
            else:
                self.is_past = True
        return attrs.evolve(emission, committed=tuple(kept))


@alone("LIFE-08")
class DropsTextAtEndOfText(FaultyStream):
    """Drops the word that is not final yet when its engine ends a text early."""

    def begin(self):
        self.cuts = EngineFaults.of(self.backend.engine_calls).cut_count

    def changed(self, emission, call):
        cuts = EngineFaults.of(self.backend.engine_calls).cut_count
        if cuts == self.cuts or not emission.committed:
            return emission
        self.cuts = cuts
        return without(emission)


@by_tests("LIFE-08")
def loses_two_hundredth_word(stream, emission, call):
    """Loses the two-hundredth word of a stream without a pause."""
    index = 199 - stream.words
    if stream.silences or not 0 <= index < len(emission.committed):
        return emission
    return attrs.evolve(
        emission, committed=(*emission.committed[:index], *emission.committed[index + 1 :])
    )


class _Disturbed(FaultyStream):
    def changed(self, emission, call):
        return edited(emission, 0, text=" you") if self.strikes(emission) else emission


@alone("LIFE-09")
class WarmsUpInStreams(FaultyBackend):
    """Warms up through the streams that are open."""

    def __init__(self):
        super().__init__(_Disturbed)

    def warmup(self):
        super().warmup()
        for stream in list(self.streams):
            if stream.number > self.streams_opened - 4:
                stream.is_due = stream.stream.stats.audio_seconds > 0


class _Stepping(LosingStream):
    is_stepping = False

    def made(self, call, make):
        self.is_stepping = True
        try:
            return super().made(call, make)
        finally:
            self.is_stepping = False


@by_tests("LIFE-09")
class WarmupDisturbsStep(FaultyBackend):
    """Clears the caches of a step that runs on another thread, which loses a word."""

    def __init__(self):
        super().__init__(_Stepping)

    def warmup(self):
        for stream in list(self.streams):
            stream.is_due = stream.is_due or stream.is_stepping
        super().warmup()


class _Flushing(_Stepping):
    def made(self, call, make):
        return super().made(call, make) if call == "finish" else FaultyStream.made(self, call, make)


@by_tests("LIFE-09")
class WarmupDisturbsFlush(WarmupDisturbsStep):
    """Writes into the buffer of a flush that runs on another thread, which loses a word."""

    def __init__(self):
        FaultyBackend.__init__(self, _Flushing)


@by_tests("LIFE-09")
class WarmupChoosesTick(FaultyBackend):
    """Measures its engine in its warmup, and chooses the tick of later streams by that."""

    def warmup(self):
        super().warmup()
        self.marks["is_warm"] = True

    def taken(self, arguments):
        return {"tick_seconds": 0.8, **arguments} if "is_warm" in self.marks else arguments


@alone("LIFE-09", on="warmup")
def hides_warmup_failure(backend):
    """Hides the failure of its warmup."""
    try:
        FaultyBackend.warmup(backend)
    except EngineFault:
        return


@by_tests("LIFE-09", on="warmup")
def is_warm_before_its_engine_answers(backend):
    """Notes that it is warm before its engine has answered, and does not try again."""
    if not backend.marks.get("is_warm"):
        backend.marks["is_warm"] = True
        FaultyBackend.warmup(backend)


@by_tests("LIFE-09", on="warmup")
def second_warmup_fails(backend):
    """Raises at its second warmup, because its caches are allocated already."""
    FaultyBackend.warmup(backend)
    backend.marks["warmups"] = backend.marks.get("warmups", 0) + 1
    if backend.marks["warmups"] == 2:
        raise RuntimeError("the cache is allocated already")


class _FirstWordLost(FaultyStream):
    def changed(self, emission, call):
        is_first = self.number == 1 and self.backend.marks.get("is warm")
        return without(emission) if is_first and not self.words else emission


@by_tests("LIFE-09")
class FirstStreamHasWarmup(FaultyBackend):
    """Mistakes the warmup for the start of the first stream, and loses its first word."""

    def __init__(self):
        super().__init__(_FirstWordLost)

    def warmup(self):
        super().warmup()
        if not self.streams_opened:
            self.marks["is warm"] = True


class ReopeningStream(FaultyStream):
    """A stream that a reset opens again, with the tick that `tick_after_reset` returns."""

    def reset(self):
        super().reset()
        tick = self.tick_after_reset()
        if tick != self.tick:
            own = {"language": self.language, "policy": self.policy, "tick_seconds": tick}
            chosen = {name: value for name, value in own.items() if value is not None}
            self.stream = ScriptedBackend.create_processor(self.backend, **chosen)

    def tick_after_reset(self):
        """Return the tick of the stream after a reset."""
        return self.tick


@by_tests("LIFE-06")
class ResetForgetsTick(ReopeningStream):
    """Has the default tick after a reset."""

    def tick_after_reset(self):
        return None


@by_tests("LIFE-09")
class HidesFailureOfOnlyWarmup(FaultyBackend):
    """Warms up once, and hides that it failed."""

    is_warm = False

    def warmup(self):
        if not self.is_warm:
            self.is_warm = True
            with suppress(EngineFault):
                super().warmup()


@by_tests("LIFE-09", on="warmup")
def hides_failure_of_second_input(backend):
    """Warms up with two inputs, and hides that the second one failed."""
    FaultyBackend.warmup(backend)
    with suppress(EngineFault):
        FaultyBackend.warmup(backend)


@by_tests("LIFE-07", on="process_iter")
def does_not_drain_a_long_backlog(stream, is_last=False):
    """Takes one step at `process_iter(is_last=True)` if more than 20 s were inserted at once."""
    return FaultyStream.process_iter(stream, is_last and stream.chunk <= 20 * SAMPLE_RATE)


@by_tests("LIFE-07", on="process_iter")
def takes_one_step_with_another_policy(stream, is_last=False):
    """Does not flush at `process_iter(is_last=True)` with its second policy."""
    return FaultyStream.process_iter(stream, is_last and stream.policy != "alignatt")


@by_tests("LIFE-08")
class CollapsesRepeatedPhrases(FaultyStream):
    """Drops a phrase of three words at its third repetition, as a loop of its decoder."""

    def begin(self):
        self.texts = []

    def changed(self, emission, call):
        kept = []
        for token in emission.committed:
            self.texts = [*self.texts[-8:], token.text]
            first, second, third = self.texts[:3], self.texts[3:6], self.texts[6:]
            if not first == second == third or len(set(first)) == 1:
                kept.append(token)
        return attrs.evolve(emission, committed=tuple(kept))
