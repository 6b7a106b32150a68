"""Faults of committed text: COM."""

from __future__ import annotations

from itertools import count
import unicodedata

import attrs

from faulty_backends.base import (
    FaultyStream,
    again,
    alone,
    by_tests,
    each,
    edit,
    edited,
    in_sessions,
    without,
)
from wlk_core import EPS, SAMPLE_RATE, ASRToken, Emission, Transcript

IDLE = 4  # calls in a row with nothing to do
SEGMENT = 46  # words, one more than in the minutes of speech that the suite repeats
_RUNS = count()


@alone("COM-01")
class RepeatsWordWhenIdle(FaultyStream):
    """Commits its last token again after several calls without new audio."""

    before = (0.0, 0)  # processed time and number of chunks at the previous call
    idle = 0
    last = None

    def changed(self, emission, call):
        now = emission.processed_up_to, self.chunks
        self.idle = self.idle + 1 if call == "process_iter" and now == self.before else 0
        self.before = now
        if self.idle == IDLE and self.last is not None:
            time = emission.stable_up_to
            repeated = attrs.evolve(self.last, start=time, end=time)
            return attrs.evolve(emission, committed=(*emission.committed, repeated))
        self.last = emission.committed[-1] if emission.committed else self.last
        return emission


@alone("COM-01")
class DropsRepeatedWord(FaultyStream):
    """Drops a word of the third pair of words that directly follow each other."""

    before = ""

    def changed(self, emission, call):
        kept = []
        for token in emission.committed:
            text = token.text.strip()
            if text == "nine" and self.before.endswith("seven seven three three nine"):
                continue
            kept.append(token)
            self.before += f" {text}"
        return attrs.evolve(emission, committed=tuple(kept))


@by_tests("COM-01")
class TakesRepeatedWordForEcho(FaultyStream):
    """Drops the first word after a pause if it is the last one before it."""

    last = ""

    def changed(self, emission, call):
        first = next(iter(emission.committed), None)
        if self.pause and first is not None and first.text.strip() == self.last:
            emission = without(emission)
        self.last = emission.committed[-1].text.strip() if emission.committed else self.last
        return emission


@by_tests("COM-01")
class TakesThirdForLoop(FaultyStream):
    """Drops a word that comes for the third time in a row, as if the model were in a loop."""

    before = ("", "")

    def changed(self, emission, call):
        kept = []
        for token in emission.committed:
            text = token.text.strip()
            if self.before != (text, text):
                kept.append(token)
            self.before = self.before[1], text
        return attrs.evolve(emission, committed=tuple(kept))


@by_tests("COM-01")
class TakesPhraseForLoop(FaultyStream):
    """Drops a phrase of three words that comes again directly after itself."""

    before = ()

    def changed(self, emission, call):
        kept = []
        for token in emission.committed:
            self.before = (*self.before, token.text.strip())[-6:]
            if len(self.before) == 6 and self.before[:3] == self.before[3:]:
                del kept[-2:]
                self.before = self.before[:3]
            else:
                kept.append(token)
        return attrs.evolve(emission, committed=tuple(kept))


@in_sessions("COM-01")
def repeats_long_word(stream, emission, call):
    """Commits a word of more than 0.9 s twice, as if its halves were two."""
    tokens = []
    for token in emission.committed:
        is_long = token.end - token.start > 0.9
        tokens += [token, again(token)] if is_long else [token]
    return attrs.evolve(emission, committed=tuple(tokens))


@by_tests("COM-01")
class AlignAttRepeatsWords(FaultyStream):
    """Commits the first word after each three seconds twice with its second policy."""

    due = 3.0

    def changed(self, emission, call):
        tokens = []
        for token in emission.committed:
            tokens.append(token)
            if self.policy == "alignatt" and token.start > self.due:
                self.due = token.start + 3.0
                tokens.append(again(token))
        return attrs.evolve(emission, committed=tuple(tokens))


@by_tests("COM-05")
def alignatt_reads_chunks(stream, emission, call):
    """Starts words earlier with its second policy if chunks are short."""
    is_short = stream.policy == "alignatt" and stream.chunk < SAMPLE_RATE // 4
    if not is_short:
        return emission
    return each(emission, lambda token: edit(token, start=max(0.0, token.start - 0.15)))


@alone("COM-02")
def returns_list(stream, emission, call):
    """Returns its own list of tokens."""
    tokens = list(emission.committed)
    return Emission(tokens, *attrs.astuple(emission, recurse=False)[1:]) if tokens else emission


@attrs.define
class _MutableToken:
    start: float
    end: float
    text: str
    probability: float | None = None
    speaker: int | str | None = None
    detected_language: str | None = None
    spoken: tuple[ASRToken, ...] = ()


@alone("COM-02")
def returns_mutable_tokens(stream, emission, call):
    """Returns tokens that can be changed."""
    return each(emission, lambda token: _MutableToken(**attrs.asdict(token, recurse=False)))


@in_sessions("COM-02")
class ChangesReturnedToken(FaultyStream):
    """Changes a token that was returned, once there are ten."""

    kept = ()

    def changed(self, emission, call):
        self.kept += emission.committed
        if len(self.kept) >= 10:
            object.__setattr__(self.kept[-10], "text", " corrected")
        return emission


@by_tests("COM-02")
class PoolsShownTokens(FaultyStream):
    """Takes the tokens of hypotheses from a pool, and writes the next hypothesis over them."""

    def begin(self):
        self.pool = []

    def get_buffer(self):
        shown = self.stream.get_buffer().tokens
        for index, token in enumerate(shown):
            if index == len(self.pool):
                self.pool.append(attrs.evolve(token))
            for name in ("start", "end", "text"):
                object.__setattr__(self.pool[index], name, getattr(token, name))
        return Transcript(tuple(self.pool[: len(shown)]))


def respelled(spell):
    """Return the fault that spells each token differently."""
    return lambda _stream, emission, _call: each(emission, lambda token: edit(token, text=spell))


for listed, name, spell, sentence in (
    (alone, "SplitsCharacters",
     lambda text: "".join(c if c.isascii() else "\ufffd" for c in text),
     "Decodes the bytes of a character that is not ASCII one by one."),
    (by_tests, "NormalisesText", lambda text: unicodedata.normalize("NFKC", text),
     "Commits text in NFKC."),
    (by_tests, "FoldsCase", str.lower, "Commits text in lower case."),
    (in_sessions, "StripsPunctuation", lambda text: text.rstrip(".,!?") or text,
     "Strips punctuation from the end of a word."),
    (by_tests, "CutsLongWords", lambda text: text[:24],
     "Commits 24 characters of each word at most."),
):  # fmt: skip
    members = {"__doc__": sentence, "changed": respelled(spell)}
    listed("COM-03")(type(name, (FaultyStream,), members))


@alone("COM-03")
def invents_spaces(stream, emission, call):
    """Puts a space before every token that begins without one, except the first."""
    for index, token in enumerate(emission.committed):
        if stream.words + index and not token.text.startswith(" "):
            emission = edited(emission, index, text=f" {token.text}")
    return emission


@in_sessions("COM-03")
def commits_empty_token(stream, emission, call):
    """Commits an empty token at the fourth flush."""
    if stream.flushes != 4 or call == "process_iter" or not emission.committed:
        return emission
    empty = edit(emission.committed[-1], text="")
    return attrs.evolve(emission, committed=(*emission.committed, empty))


@in_sessions("COM-03")
class SpacesFirstWordAfterFlush(FaultyStream):
    """Puts a space between two words with a flush between them, in scripts without spaces too."""

    def changed(self, emission, call):
        is_struck = self.strikes(emission) and self.words
        self.is_due = self.is_due or call != "process_iter"
        if not is_struck or emission.committed[0].text.startswith(" "):
            return emission
        return edited(emission, 0, text=lambda text: f" {text}")


@alone("COM-04")
def is_not_deterministic(stream, emission, call):
    """Reports no stable time for two of every four streams."""
    return attrs.evolve(emission, stable_up_to=0.0) if stream.number // 2 % 2 == 0 else emission


@by_tests("COM-04")
def jitters_after_third_word(stream, emission, call):
    """Reports a probability that changes from run to run, from the fourth word on."""
    for index in range(max(0, 3 - stream.words), len(emission.committed)):
        emission = edited(emission, index, probability=1 / (2 + next(_RUNS) % 1000))
    return emission


@by_tests("COM-04")
def remembers_earlier_streams(stream, emission, call):
    """Reports a probability that shrinks with the number of streams that were opened before."""
    return each(emission, lambda token: edit(token, probability=1 / stream.number))


@alone("COM-05")
def depends_on_chunk_size(stream, emission, call):
    """Writes the words of a chunk of five seconds in title case."""
    if stream.chunk != 5 * SAMPLE_RATE:
        return emission
    return each(emission, lambda token: edit(token, text=str.title))


@in_sessions("COM-05", on="begin")
def drops_rest_of_mel_frame(stream):
    """Feeds its model only the whole 10 ms frames of each chunk, and drops the rest."""
    recognizer = stream.stream._recognizer
    feed = recognizer.feed
    recognizer.feed = lambda audio: feed(audio[: len(audio) // 160 * 160])


@alone("COM-06", on="shown")
def shows_future_word(stream, tokens):
    """Shows a word at a time for which there is no audio yet."""
    end = stream.stream.stats.audio_seconds + EPS / 2
    return [*tokens[:-1], *(edit(token, start=end, end=end) for token in tokens[-1:])]


@in_sessions("COM-06")
def future_word_after_second_flush(stream, emission, call):
    """Starts the last word of a flush at the end of the audio, from the third flush on."""
    end = emission.processed_up_to
    is_due = stream.flushes >= 3 and call != "process_iter"
    return edited(emission, -1, start=end, end=end) if is_due else emission


@in_sessions("COM-06")
def starts_short_rest_in_future(stream, emission, call):
    """Starts a word that is flushed within 50 ms of its end at the end of the audio."""
    end = emission.processed_up_to
    if call == "process_iter" or not emission.committed or emission.committed[-1].end < end - 0.05:
        return emission
    return edited(emission, -1, start=end, end=end)


FILLERS = {"um", "uh", "hmm", "thank", "you", "thanks", "bye"}


@by_tests("COM-03")
class StripsSpaceOfSegments(FaultyStream):
    """Begins each segment of a long utterance, one a minute, without its space."""

    count = 0  # words of the utterance

    def changed(self, emission, call):
        first = -self.count % SEGMENT if self.count else SEGMENT
        committed = emission.committed
        if first < len(committed):
            emission = edited(emission, first, text=str.lstrip)
        self.count = 0 if call != "process_iter" else self.count + len(committed)
        return emission


@by_tests("COM-03")
def drops_fillers(stream, emission, call):
    """Drops fillers, and what Whisper invents in silence, whoever says it."""
    words = [word for word in emission.committed if word.text.strip(" .").lower() not in FILLERS]
    return attrs.evolve(emission, committed=tuple(words))


@by_tests("COM-03")
def drops_remarks(stream, emission, call):
    """Drops what is in brackets, as a remark on a sound."""
    words = [word for word in emission.committed if word.text.strip()[:1] not in ("[", "(", "<")]
    return attrs.evolve(emission, committed=tuple(words))


@by_tests("COM-03")
def strips_joiners(stream, emission, call):
    """Removes zero-width characters, which words and emoji of some scripts need."""
    joiners = dict.fromkeys(range(0x200B, 0x2010))
    return each(emission, lambda token: edit(token, text=token.text.translate(joiners)))
