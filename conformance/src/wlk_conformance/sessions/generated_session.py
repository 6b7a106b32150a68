"""Generated sessions as data for a JSON file: audio, calls, and the rules that they break."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import attrs
import msgspec

from wlk_conformance.interfaces import HABITS
from wlk_conformance.stimuli import CodedSpeech, SpeechSource, Stimulus
from wlk_conformance.testing import CodedToken
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ATTACHED = frozenset(",!।。、ा")  # follow a word without a space in any script
#: The calls that end an utterance, each with the rule that it breaks if it leaves audio undecoded.
FLUSHES: Mapping[str, str] = {
    "start_silence": "SIL-01", "new_speaker": "SPK-01", "is_last": "LIFE-07", "finish": "TIME-03",
}  # fmt: skip


@attrs.frozen
class Vocabulary:
    """The words of a coded engine; `has_spaces` if its script has spaces between utterances."""

    words: Sequence[str]
    has_spaces: bool = True

    def joined(self, before: str, word: str) -> str:
        """Return *word* as the start of an utterance after the text *before*."""
        if not before:
            return word.lstrip()
        is_spaced = before[-1].isspace() or word[0].isspace()
        if is_spaced or not self.has_spaces or word[0] in ATTACHED:
            return word
        return f" {word}"


#: By name; each has ten words, like the digits.
VOCABULARIES: Mapping[str, Vocabulary] = {
    "pieces": Vocabulary((" trans", "crip", "tion", ",", " un", "believ", "able", "!", " 1", "00")),
    "space after": Vocabulary(
        ("yes ", "no ", "up ", "down ", "left ", "right ", "on ", "off ", "stop ", "go ")
    ),
    # Words that normalising Unicode, case or punctuation, or a table column, would change.
    "as spelled": Vocabulary(
        (" \ufb01ne", " one,", " e\u0301", " STRASSE", " Stra\u00dfe", " U.S.",
         " mixedCase", f" {'long' * 25}", " \u0130", " Yes.")
    ),
    "Hindi": Vocabulary((" नम", "स्", "ते", " दु", "नि", "या", " में", "।", "ा", " और")),
    # Characters of private use have no name in Unicode; tokenizers of speech models have some.
    "private use": Vocabulary(
        (" \ue001", "\ue002", "\ue003x", "x\ue004", " y", "z", " \ue005", "a\ue006", "b", "c")
    ),
    "Chinese": Vocabulary(
        ("你", "好", "、", "世", "界", "。", "我", "们", "说", "话"), has_spaces=False
    ),
    "Thai": Vocabulary(
        ("ส", "วัส", "ดี", "ครับ", "ผม", "พูด", "ภาษา", "ไทย", "ได้", "นะ"), has_spaces=False
    ),
    "Japanese": Vocabulary(
        ("こん", "に", "ちは", "。", "カ", "タ", "ナ", "です", "ね", "ー"), has_spaces=False
    ),
}  # fmt: skip


Token = tuple[int, int, int]  # id, first cell and cells


class Tape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Audio that a stream is fed from the start; zeros follow its end."""

    tokens: tuple[Token, ...] = ()  #: of coded audio; empty for spoken digits
    count: int = 0  #: number of spoken digits
    seed: int = 0  #: of the spoken digits
    first_sample: int = 0  #: of the spoken audio; the tape begins there

    def render(self, source: SpeechSource) -> Stimulus:
        """Return the audio; *source* speaks the digits."""
        if self.tokens and isinstance(source, CodedSpeech):
            tokens = [CodedToken(*token) for token in self.tokens]
            return source.script(tokens, cells=self.cells)
        stimulus = source.speech(self.count or len(self.tokens), seed=self.seed)
        return attrs.evolve(stimulus, audio=stimulus.audio[self.first_sample :])

    @property
    def cells(self) -> int:
        """The end of the last coded token, in cells of 80 ms."""
        return max((cell + cells for _, cell, cells in self.tokens), default=0)


Do = Literal[
    "open", "insert", "refuse", "process", "drain", "start_silence", "end_silence", "is_last",
    "new_speaker", "finish", "reset", "close", "read", "warmup", "exhaust",
]  # fmt: skip


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One call of a stream, or several that belong together.

    "exhaust" makes every engine call fail until the stream is broken, "refuse" makes a call that
    must raise and change nothing.  Times are seconds.
    """

    do: Do
    stream: int = 0
    samples: int = 0  #: number to insert from the tape, or in a chunk to be refused
    #: The memory layout of the array; a "reused" array is overwritten after the insert.
    form: Literal["plain", "read-only", "strided", "reversed", "reused"] = "plain"
    end_offset: float | None = None  #: of the end time from the true one; None for no end time
    seconds: float = 0.0  #: length of a silence
    offset: float | None = None  #: the advisory offset of end_silence
    speaker: int | str | None = None
    start: float = 0.0  #: start of a turn, relative to the end of the audio
    faults: tuple[int, ...] = ()  #: the engine calls of this action that fail, 1 for its first
    is_after: bool = False  #: the calls fail after the engine ran
    is_given_up: bool = False  #: the call is not repeated after it failed
    is_threaded: bool = False  #: the call is made on a thread of its own
    times: int = 1  #: the number of reads of the hypothesis
    bad: str = ""  #: why the call must be refused
    inner: tuple[Action, ...] = ()  #: made while the first engine call of this action is held
    options: dict[str, Any] = {}  #: arguments of create_processor


class GeneratedSession(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="version", tag=2
):
    """Streams of one backend: a tape for each, by its number, and the actions in order."""

    name: str
    vocabulary: str = ""  #: name in VOCABULARIES; empty for the engine's own words
    habits: tuple[str, ...] = ()  #: that the engine imitates, see SupportsHabits
    tapes: tuple[Tape, ...]
    actions: tuple[Action, ...]

    def __post_init__(self) -> None:
        if self.vocabulary not in ("", *VOCABULARIES) or not set(self.habits) <= set(HABITS):
            raise ValueError(f"unknown vocabulary or habit: {self.vocabulary}, {self.habits}")
        if not all(0 <= action.stream < len(self.tapes) for action in self.actions):
            raise ValueError("an action is on a stream without a tape")

    def as_json(self) -> str:
        """Return the session as a JSON document."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"

    @classmethod
    def from_json(cls, text: str) -> GeneratedSession:
        """Return the session of a JSON document; OptionError if it has none."""
        try:
            return msgspec.json.decode(text, type=cls)
        except ValueError as error:
            reason = f"--replay: expected a session written by wlk-conformance, got: {error}"
            raise OptionError(reason) from None

    def listed(self) -> str:
        """Return a line for each stream that is used, and each call; equal calls share one."""
        used = sorted({action.stream for action in self.actions})
        lines = [f"audio of stream {number}: {_line(self.tapes[number])}" for number in used]
        lines += [f"vocabulary: {self.vocabulary}"] if self.vocabulary else []
        lines += [f"habits: {self.habits}"] if self.habits else []
        for call, equal in groupby(map(_line, self.actions)):
            count = sum(1 for _ in equal)
            lines.append(call if count == 1 else f"{call}, {count} times")
        return "\n".join(f"    {line}" for line in lines)


def _line(record: Tape | Action) -> str:
    return msgspec.json.format(msgspec.json.encode(record), indent=0).decode()


Kind = Literal[
    "blocked", "invariant", "language", "clock", "missing", "extra", "spacing", "time", "raised",
    "differs",
]  # fmt: skip


@attrs.frozen
class Violation:
    """A rule that was broken."""

    rule: str
    message: str  #: what was fed, expected and received
    kind: Kind = "invariant"
    stream: str = ""  #: name of the stream
    #: For kind "differs", the session of the reference stream, which has other words.
    reference: GeneratedSession | None = None
    session: GeneratedSession | None = None  #: the smallest one that breaks it, if one was played
    advice: str = ""  #: how to repeat it, if a generated session was found to break the rule

    @property
    def is_exact(self) -> bool:
        """Whether the call determines the rule; else the smallest session does."""
        return self.kind in ("invariant", "blocked")
