"""Faults of the hypothesis: HYP, and faults that only the hypothesis shows."""

from __future__ import annotations

import sys

import attrs

from faulty_backends.base import (
    FaultyStream,
    LockedStream,
    again,
    alone,
    by_tests,
    edit,
    in_sessions,
    without,
)


@alone("HYP-01")
class HypothesisDependsOnReads(FaultyStream):
    """Shows an empty hypothesis to every third reader."""

    reads = 0

    def shown(self, tokens):
        self.reads += 1
        return () if self.reads % 3 == 0 else tokens

    def changed(self, emission, call):
        self.reads = 0
        return emission


@by_tests("HYP-01")
class CommitsLaterIfUnread(FaultyStream):
    """Keeps the words of a step for the next call, unless the hypothesis is read in between."""

    kept = ()
    is_read = True

    def shown(self, tokens):
        self.is_read = True
        return tokens

    def changed(self, emission, call):
        words = (*self.kept, *emission.committed)
        is_due = self.is_read or call != "process_iter"
        self.kept, self.is_read = () if is_due else words, False
        return attrs.evolve(emission, committed=words if is_due else ())


@by_tests("HYP-01")
class ReadsCountAsWork(FaultyStream):
    """Runs a forward pass at each read of the hypothesis, by its own counter."""

    reads = 0

    def shown(self, tokens):
        self.reads += 1
        return tokens

    def counted(self, stats):
        return edit(stats, decoder_forwards=(stats.decoder_forwards or 0) + self.reads)


@alone("HYP-01")
class CannotBeReadAfterClose(FaultyStream):
    """Fails in a read of the hypothesis after it was closed, because its state is gone."""

    decoder = ()

    def close(self):
        self.stream.close()
        self.decoder = None

    def get_buffer(self):
        if self.decoder is None:
            raise AttributeError("the decoder is None")
        return super().get_buffer()


@in_sessions("HYP-01")
class ReadFromThreadLosesWord(HypothesisDependsOnReads):
    """Loses a word if the hypothesis was read seven times between two calls."""

    def shown(self, tokens):
        self.reads += 1
        self.is_due = self.is_due or self.reads >= 7
        return tokens

    def changed(self, emission, call):
        self.reads = 0
        return without(emission) if self.strikes(emission) else emission


@in_sessions("HYP-01", on="shown")
def leaves_program_in_read(stream, tokens):
    """Exits the program in a read of the hypothesis after two silences."""
    return sys.exit("no more") if stream.silences >= 2 else tokens


@by_tests("HYP-03")
class KeepsWhatWasRead(FaultyStream):
    """Returns the hypothesis that was read last until more audio is decoded."""

    time, read = 0.0, None

    def changed(self, emission, call):
        if emission.processed_up_to > self.time:
            self.time, self.read = emission.processed_up_to, None
        return emission

    def get_buffer(self):
        self.read = super().get_buffer() if self.read is None else self.read
        return self.read


@alone("HYP-01")
class ReadWaitsForStep(LockedStream):
    """Makes get_buffer wait for the end of a running step."""

    def get_buffer(self):
        with self.lock:
            return super().get_buffer()


@by_tests("HYP-01")
class ReadWaitsForFlush(ReadWaitsForStep):
    """Makes get_buffer wait for the end of a flush, but not of a step."""

    held = ("start_silence", "is_last")


@alone("HYP-02")
class ShowsCommittedWord(FaultyStream):
    """Shows the last committed word in the hypothesis as well."""

    last = ()

    def changed(self, emission, call):
        self.last = emission.committed[-1:] or self.last
        return emission

    def shown(self, tokens):
        return (*self.last, *tokens) if tokens else tokens


@alone("HYP-02", on="shown")
def shows_nothing(stream, tokens):
    """Declares a hypothesis, but shows only words that are due."""
    due = stream.stream.stats.audio_seconds - stream.backend.spec.max_delay - 1
    return [token for token in tokens if token.end < due]


@by_tests("HYP-02", on="shown")
def shows_four_utterances(stream, tokens):
    """Shows nothing after four pauses."""
    return tokens if stream.silences < 4 else []


@in_sessions("HYP-02", on="shown")
def hypothesis_drops_first_word(stream, tokens):
    """Shows the hypothesis without its first word, once six words are committed."""
    return tokens[1:] if stream.words >= 6 else tokens


@in_sessions("HYP-02", on="shown")
def hypothesis_has_other_words(stream, tokens):
    """Shows a word that was not spoken for every word, from the third pause on."""
    return [edit(t, text=" thanks") for t in tokens] if stream.silences >= 3 else tokens


@in_sessions("HYP-02", on="shown")
def hypothesis_repeats_its_last_word(stream, tokens):
    """Shows the newest word twice, once six words are committed."""
    return [*tokens, *map(again, tokens[-1:])] if stream.words >= 6 else tokens


@in_sessions("HYP-02", on="shown")
def hypothesis_goes_back(stream, tokens):
    """Shows a hypothesis a second too early after the second flush."""
    if stream.flushes < 2 or not tokens or tokens[0].start < 1:
        return tokens
    return [edit(token, start=token.start - 1, end=token.end - 1) for token in tokens]


@in_sessions("COM-03", on="shown")
def hypothesis_loses_its_space(stream, tokens):
    """Shows the first word without the space before it, once six words are committed."""
    if stream.words < 6:
        return tokens
    return [*(edit(token, text=str.lstrip) for token in tokens[:1]), *tokens[1:]]


@in_sessions("TIME-01", on="shown")
def hypothesis_ends_before_it_begins(stream, tokens):
    """Shows a hypothesis that ends before it begins, once it has two words."""
    if len(tokens) < 2:
        return tokens
    last = tokens[-1]
    return [*tokens[:-1], edit(last, start=last.end, end=last.start)]


@alone("HYP-03")
class KeepsHypothesisAfterFinish(FaultyStream):
    """Shows its last hypothesis after finish."""

    last = ()

    def finish(self):
        self.last = self.stream.get_buffer().tokens
        return super().finish()

    def shown(self, tokens):
        return tokens or self.last


@by_tests("HYP-03")
class KeepsHypothesisAtTurn(FaultyStream):
    """Shows the hypothesis from before a turn until the next step."""

    last = ()

    def new_speaker(self, change):
        shown = self.stream.get_buffer().tokens
        emission = super().new_speaker(change)
        self.last = shown
        return emission

    def changed(self, emission, call):
        self.last = ()
        return emission

    def shown(self, tokens):
        return tokens or self.last


@in_sessions("HYP-03")
class KeepsHypothesisAtSecondFlush(FaultyStream):
    """Shows its last hypothesis after the second flush, and after later ones."""

    last = ()

    def shown(self, tokens):
        self.last = tokens or self.last
        return tokens if self.flushes < 2 else self.last


@by_tests("HYP-02")
class ShowsOnlyLongUtterances(FaultyStream):
    """Shows a hypothesis only if its utterance is at least as long as the longest one before."""

    longest = length = 0

    def changed(self, emission, call):
        self.length += len(emission.committed)
        if call == "start_silence":
            self.longest, self.length = max(self.longest, self.length), 0
        return emission

    def shown(self, tokens):
        return tokens if self.length + len(tokens) >= self.longest else ()


@by_tests("HYP-02")
class StripsItsFirstWord(FaultyStream):
    """Shows a hypothesis without the space before its first word."""

    def shown(self, tokens):
        return tuple(
            edit(token, text=token.text.lstrip()) if index == 0 else token
            for index, token in enumerate(tokens)
        )
