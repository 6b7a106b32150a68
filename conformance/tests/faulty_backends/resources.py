"""Faults of memory and work, and counters that hide them: RES."""

from __future__ import annotations

import attrs
import numpy as np

from faulty_backends.base import FaultyBackend, FaultyStream, alone, by_tests, edit, in_sessions
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.standard_options import PROMPT


class ProcessedStream(FaultyStream):
    """A stream that knows its processed time."""

    processed = 0.0
    is_closed = False

    def changed(self, emission, call):
        self.processed = 0.0 if self.is_closed else emission.processed_up_to
        return emission

    def close(self):
        self.processed, self.is_closed = 0.0, True
        self.stream.close()


@alone("RES-01")
class KeepsEverything(ProcessedStream):
    """Keeps a kilobyte for each second of the stream."""

    def counted(self, stats):
        return edit(stats, state_bytes=(stats.state_bytes or 0) + round(1000 * self.processed))


@by_tests("RES-01", on="counted")
def counts_no_state(stream, stats):
    """Declares that its state is bounded, but does not count it."""
    return edit(stats, state_bytes=None)


@alone("RES-01")
class KeepsAudioWithoutWords(ProcessedStream):
    """Keeps two kilobytes for each second since the last word, without a limit."""

    last_end = 0.0

    def changed(self, emission, call):
        self.last_end = max(self.last_end, *(token.end for token in emission.committed), 0.0)
        return super().changed(emission, call)

    def counted(self, stats):
        seconds = max(0.0, self.processed - self.last_end)
        return edit(stats, state_bytes=(stats.state_bytes or 0) + round(2000 * seconds))


@by_tests("RES-01")
class HidesItsGrowth(FaultyStream):
    """Keeps a kilobyte for each second of the stream, but does not count it."""

    def begin(self):
        self.kept = []

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.kept.append(self.copied(audio))

    def copied(self, audio):
        """Return what is kept for *audio*."""
        return bytes(len(audio) // 16)


@by_tests("RES-01")
class KeepsEmptyChunks(FaultyStream):
    """Keeps each chunk without samples."""

    def begin(self):
        self.kept = []

    def received(self, audio):
        if not len(audio):
            self.kept.append(audio)
        return audio


@by_tests("RES-01")
class NeverTrimsItsAudio(HidesItsGrowth):
    """Keeps all audio, but counts only what its window needs."""

    def copied(self, audio):
        return audio.tobytes()


class BreathingStream(FaultyStream):
    """A sound stream with a window that grows by calls, flushes or not, and is emptied at times."""

    window = b""
    is_closed = is_finished = False

    def begin(self):
        self.kept = []

    def close(self):
        self.stream.close()
        self.window, self.is_closed = b"", True

    def changed(self, emission, call):
        """Grow the window, unless the stream has ended."""
        if not (self.is_closed or self.is_finished):
            self.window = bytes(20_000 * (self.calls % 9))
        self.is_finished = call == "finish"
        return emission

    def counted(self, stats):
        return edit(stats, state_bytes=(stats.state_bytes or 0) + len(self.window))


@by_tests("RES-01")
class KeepsSilences(BreathingStream):
    """Keeps three bytes for each second of a pause, hidden by a window that grows and shrinks."""

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.kept.append(bytes(round(3 * min(seconds, 3600))))


@by_tests("RES-01")
class KeepsZeros(BreathingStream):
    """Keeps 300 bytes for each second of zeros, hidden by a window that grows and shrinks."""

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        if not audio.any():
            self.kept.append(bytes(300 * len(audio) // 16_000))


@by_tests("RES-01")
class KeepsZerosUntilFlush(KeepsZeros):
    """Keeps a kilobyte for each second of zeros until a flush, hidden by a window as well."""

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        if not audio.any():
            self.kept.append(bytes(700 * len(audio) // 16_000))

    def changed(self, emission, call):
        if call != "process_iter":
            self.kept.clear()
        return super().changed(emission, call)


@alone("RES-01")
class CountsSilencesAsState(BreathingStream):
    """Keeps 200 bytes for each second of a pause, counted in a state that grows and shrinks."""

    paused = 0.0

    def end_silence(self, seconds, offset=None):
        super().end_silence(seconds, offset)
        self.paused += seconds

    def counted(self, stats):
        counted = super().counted(stats)
        kept = 0 if self.is_closed else round(200 * self.paused)
        return edit(counted, state_bytes=counted.state_bytes + kept)


def hoard(stream):
    """Keep eight kilobytes on the backend, which `state_bytes` does not count."""
    stream.backend.marks.setdefault("kept", []).append(bytes(8 * 1024))


@by_tests("RES-01", on="begin")
def keeps_an_entry_of_each_stream(stream):
    """Keeps an entry of 1.5 kilobytes for each stream and reset."""
    stream.backend.marks.setdefault("kept", []).append(bytes(1536))


@by_tests("RES-01")
class NotesWhatItShows(FaultyStream):
    """Keeps an entry at each read of the hypothesis."""

    def begin(self):
        self.notes = []

    def shown(self, tokens):
        self.notes.append((len(self.notes), tokens))
        return tokens


@by_tests("RES-01", on="begin")
def keeps_memory_at_each_reset(stream):
    """Keeps eight kilobytes at each reset."""
    if stream.resets:
        hoard(stream)


@by_tests("RES-01", on="new_speaker")
def keeps_memory_of_each_turn(stream, change):
    """Keeps eight kilobytes at each speaker turn."""
    hoard(stream)
    return FaultyStream.new_speaker(stream, change)


@by_tests("RES-01")
class KeepsMemoryOfEachStream(FaultyStream):
    """Keeps eight kilobytes when a stream is closed."""

    def close(self):
        self.stream.close()
        hoard(self)


@alone("RES-01")
class KeepsRefusedStreams(FaultyBackend):
    """Keeps eight kilobytes of each stream that it refuses for its options."""

    def create_processor(self, **arguments):
        try:
            return super().create_processor(**arguments)
        except OptionError:
            self.marks.setdefault("kept", []).append(bytes(8 * 1024))
            raise


@in_sessions("RES-01", on="counted")
def stops_counting_its_state(stream, stats):
    """Reports no state_bytes from the third flush on."""
    return edit(stats, state_bytes=None) if stream.flushes >= 3 else stats


@alone("RES-02")
class DecodesEverythingAgain(ProcessedStream):
    """Runs its decoder over all audio since the start of the stream."""

    def counted(self, stats):
        extra = round(min(self.processed, stats.audio_seconds) ** 2)
        return edit(stats, decoder_positions=(stats.decoder_positions or 0) + extra)


@by_tests("RES-02")
class DecodesNoiseAgain(FaultyStream):
    """Runs its encoder over all audio since the last word at each step."""

    last_end = extra = 0

    def changed(self, emission, call):
        self.last_end = max(self.last_end, *(token.end for token in emission.committed), 0)
        self.extra += max(0, round(100 * (emission.processed_up_to - self.last_end)))
        return emission

    def counted(self, stats):
        return edit(stats, encoder_frames=(stats.encoder_frames or 0) + self.extra)


@by_tests("RES-02", on="process_iter")
def hides_engine_calls(stream, is_last=False):
    """Runs its engine once more for each minute of the stream, but does not count that."""
    for _ in range(int(stream.stream.stats.audio_seconds / 60)):
        stream.backend.engine_calls.wrap(int)()
    return FaultyStream.process_iter(stream, is_last)


@in_sessions("RES-02", on="counted")
def counter_goes_back(stream, stats):
    """Resets its counters at the second flush."""
    return stats if stream.flushes < 2 else edit(stats, decoder_forwards=0)


@in_sessions("RES-02", on="counted")
def stops_counting_its_work(stream, stats):
    """Reports no encoder_frames from the third flush on."""
    return edit(stats, encoder_frames=None) if stream.flushes >= 3 else stats


@in_sessions("RES-02")
class FreezesItsCounters(FaultyStream):
    """Stops counting work after twenty seconds of audio."""

    frozen = None

    def counted(self, stats):
        if stats.audio_seconds < 20 or self.frozen is None:
            self.frozen = stats
        names = ("encoder_frames", "decoder_positions", "decoder_forwards", "detokenised_ids")
        return edit(stats, **{name: getattr(self.frozen, name) for name in names})


@alone("RES-03", spec={"max_delay": 0.4})
class ExceedsDeclaredDelay(FaultyStream):
    """Declares a delay that it exceeds."""


@by_tests("RES-03")
class ReportsBacklogLate(FaultyStream):
    """Reports four seconds less than it has processed, until a flush."""

    processed = 0.0

    def changed(self, emission, call):
        """Report no time as stable."""
        late = 4.0 if call == "process_iter" else 0.0
        self.processed = max(self.processed, emission.processed_up_to - late)
        return attrs.evolve(emission, processed_up_to=self.processed, stable_up_to=0.0)


@alone("RES-04", on="counted")
def detokenises_all_ids_again(stream, stats):
    """Passes each id to its detokeniser forty times."""
    return edit(stats, detokenised_ids=40 * (stats.detokenised_ids or 0))


@by_tests("RES-04", on="counted")
def detokenises_more_after_each_pause(stream, stats):
    """Passes each id to its detokeniser more often after each pause, from the third on."""
    times = 10 * max(1, stream.silences - 2)
    return edit(stats, detokenised_ids=times * (stats.detokenised_ids or 0))


@by_tests("RES-04", on="counted")
def counts_forwards_by_the_hundred(stream, stats):
    """Counts a hundred forward passes as one, so that each of its ids seems detokenised often."""
    return edit(stats, decoder_forwards=(stats.decoder_forwards or 0) // 100)


@by_tests("RES-01")
class KeepsErrors(FaultyStream):
    """Keeps the error of every failed call on the backend."""

    def failed(self, error, call):
        self.backend.marks.setdefault("errors", []).append(error)
        raise error


@by_tests("RES-01", on="taken", spec={"options": (*SCRIPTED_SPEC.options, PROMPT)})
def keeps_prompts(backend, arguments):
    """Keeps what it prepared for each prompt."""
    backend.marks[arguments.pop("prompt", None)] = bytes(10_000)
    return arguments


@by_tests("RES-01", on="taken", spec={"options": (*SCRIPTED_SPEC.options, PROMPT)})
def keeps_words_of_prompts(backend, arguments):
    """Keeps the words of each prompt."""
    prompt = arguments.pop("prompt", None) or ""
    backend.marks[prompt] = prompt.split()
    return arguments


class KeepingStream(FaultyStream):
    """A stream that keeps what is appended to `kept`, and counts none of it."""

    lasting = (*FaultyStream.lasting, "kept")

    def __init__(self, *args, **chosen):
        super().__init__(*args, **chosen)
        self.kept = []


@by_tests("RES-01")
class KeepsCommittedTokens(KeepingStream):
    """Keeps every committed token."""

    def changed(self, emission, call):
        self.kept += emission.committed
        return emission


@by_tests("RES-01")
class KeepsAudioWithAnotherPolicy(KeepingStream):
    """Keeps all audio with its second policy."""

    def received(self, audio):
        self.kept += [np.array(audio)] if self.policy == "alignatt" else []
        return audio


@by_tests("RES-01")
class KeepsPreparedFlushes(KeepingStream):
    """Keeps what it prepared for each flush."""

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.kept.append(bytes(30_000))


@by_tests("RES-01")
class KeepsPreparedAnswers(KeepingStream):
    """Keeps what it prepared for each flush by its audio, to use it again."""

    heard = b""

    def __init__(self, *args, **chosen):
        super().__init__(*args, **chosen)
        self.answers = {}

    def received(self, audio):
        self.heard = np.asarray(audio).tobytes()
        return audio

    def prepare_flush(self):
        self.stream.prepare_flush()
        self.answers[self.heard] = bytes(30_000)


@by_tests("RES-01")
class KeepsRefusedChunks(KeepingStream):
    """Keeps each chunk that it refused, to write it to a log."""

    def insert_audio_chunk(self, audio, end_time=None):
        try:
            super().insert_audio_chunk(audio, end_time)
        except AudioFormatError:
            self.kept.append(np.array(audio))
            raise


@by_tests("RES-01")
class KeepsUnfinishedStreams(FaultyStream):
    """Leaves what it keeps on its backend unless it was finished."""

    def begin(self):
        self.backend.marks[self.number] = bytes(8192)

    def finish(self):
        self.backend.marks.pop(self.number, None)
        return super().finish()


@by_tests("RES-01", on="warmup")
def keeps_buffers_of_warmups(backend):
    """Keeps the buffers of each warmup."""
    FaultyBackend.warmup(backend)
    backend.marks.setdefault("buffers", []).append(bytes(100_000))


@by_tests("RES-03")
class ShowsNothingWithAnotherPolicy(FaultyStream):
    """Commits and shows nothing before a flush with its second policy."""

    kept = ()

    def changed(self, emission, call):
        if self.policy != "alignatt":
            return emission
        words = (*self.kept, *emission.committed)
        self.kept = words if call == "process_iter" else ()
        return edit(emission, committed=() if self.kept else words, stable_up_to=0.0)

    def shown(self, tokens):
        return () if self.policy == "alignatt" else tokens


@by_tests("RES-02", on="start_silence")
def decodes_earlier_utterances_again(stream):
    """Calls its engine once more for each earlier utterance when one ends, and counts no work."""
    emission = FaultyStream.start_silence(stream)
    for _ in range(stream.silences):
        stream.backend.engine_calls.wrap(int)()
    return emission
