"""Sessions as data, ready for a JSON file: streams, their audio and calls; and what they break."""

from __future__ import annotations

from itertools import groupby
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import attrs
from attrs.validators import deep_iterable, in_

from wlk_conformance.seams import HABITS
from wlk_conformance.stimuli import CodedSpeech, SpeechSource, Stimulus
from wlk_conformance.testing import CodedToken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "FLUSHES", "VOCABULARIES", "Action", "Do", "Kind", "Session", "Tape", "Token", "Violation",
    "Vocabulary",
]  # fmt: skip

ATTACHED = frozenset(",!।。、ा")  # what follows a word without a space in any script
FLUSHES = ("start_silence", "is_last", "new_speaker", "finish")
VERSION = 1  # of the JSON document


@attrs.frozen
class Vocabulary:
    """
    The words of a coded engine, with their own spacing.

    `has_spaces` where the script puts a space between two words that were decoded apart.
    """

    words: Sequence[str]
    has_spaces: bool = True

    @property
    def is_split_by_spaces(self) -> bool:
        """Whether every word begins with a space, so that spaces separate the words."""
        return all(word.startswith(" ") for word in self.words)

    def joined(self, before: str, word: str) -> str:
        """Return *word* as it begins an utterance after the text *before*."""
        if not before:
            return word.lstrip()
        is_spaced = before[-1].isspace() or word[0].isspace()
        if is_spaced or not self.has_spaces or word[0] in ATTACHED:
            return word
        return f" {word}"


#: By name; each has ten words, like the digits.
VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {
        "pieces": Vocabulary(
            (" trans", "crip", "tion", ",", " un", "believ", "able", "!", " 1", "00")
        ),
        "space after": Vocabulary(
            ("yes ", "no ", "up ", "down ", "left ", "right ", "on ", "off ", "stop ", "go ")
        ),
        # What a normal form of Unicode, a change of case or a column of a table would change.
        "as spelled": Vocabulary(
            (" \ufb01ne", " \u2167", " e\u0301", " STRASSE", " Stra\u00dfe", " \u212b",
             " mixedCase", f" {'long' * 25}", " \u0130", " \u00bd")
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
    }
)  # fmt: skip


Token = tuple[int, int, int]  # id, first cell and cells


def _tokens(values: Iterable[Iterable[int]]) -> tuple[Token, ...]:
    return tuple((id_, cell, cells) for id_, cell, cells in values)


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values)


def _is_chosen(field: attrs.Attribute[Any], value: object) -> bool:
    return field.default is attrs.NOTHING or value not in ((), {}, field.default)


def _described(record: Any) -> dict[str, Any]:
    """Return the fields of *record* that differ from their defaults."""
    return attrs.asdict(record, filter=_is_chosen)


@attrs.frozen(kw_only=True)
class Tape:
    """
    Audio that a stream is fed from its beginning on; zeros follow its end.

    Attributes:
        kind: "coded" for the tokens listed, "speech" for digits spoken.
        tokens: id, first cell and cells of each coded token.
        count: how many digits are spoken.
        seed: of the digits.
        first_sample: where the audio begins, of what is spoken.

    """

    kind: Literal["coded", "speech"] = "coded"
    tokens: tuple[Token, ...] = attrs.field(default=(), converter=_tokens)
    count: int = 0
    seed: int = 0
    first_sample: int = 0

    def render(self, source: SpeechSource) -> Stimulus:
        """Return the audio; *source* speaks the digits."""
        if self.kind == "coded" and isinstance(source, CodedSpeech):
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


def _actions(values: Iterable[Any]) -> tuple[Action, ...]:
    return tuple(value if isinstance(value, Action) else Action(**value) for value in values)


@attrs.frozen(kw_only=True)
class Action:
    """
    One call of a stream, or several that belong together.

    Attributes:
        do: what is done.  "exhaust" makes every engine call fail until the stream is broken;
            "refuse" makes a call that must raise and change nothing.
        stream: the number of the stream.
        samples: of audio to insert, taken from the stream's tape, or of a chunk to be refused.
        form: the memory layout of the array; a "reused" array is overwritten after the insert.
        end_offset: the end time of the chunk relative to the true one in seconds; None for none.
        seconds: of a silence.
        offset: the advisory offset of end_silence.
        speaker: of a turn.
        start: of a turn, in seconds relative to the end of the audio.
        faults: the engine calls of this action that fail, 1 for its first.
        is_after: they fail after the engine ran.
        is_given_up: the call is not repeated after it failed.
        is_threaded: the call is made on a thread of its own.
        times: how often a hypothesis is read.
        bad: what a refused call brings.
        inner: actions made while the first engine call of this action is held.
        options: arguments of create_processor.

    """

    do: Do
    stream: int = 0
    samples: int = 0
    form: Literal["plain", "read-only", "strided", "reversed", "reused"] = "plain"
    end_offset: float | None = None
    seconds: float = 0.0
    offset: float | None = None
    speaker: int | str | None = None
    start: float = 0.0
    faults: tuple[int, ...] = attrs.field(default=(), converter=_tuple)
    is_after: bool = False
    is_given_up: bool = False
    is_threaded: bool = False
    times: int = 1
    bad: str = ""
    inner: tuple[Action, ...] = attrs.field(default=(), converter=_actions)
    options: dict[str, Any] = attrs.field(factory=dict)


def _tapes(values: Iterable[Any]) -> tuple[Tape, ...]:
    return tuple(value if isinstance(value, Tape) else Tape(**value) for value in values)


@attrs.frozen(kw_only=True)
class Session:
    """
    Streams of one backend: a tape for each, and the actions in order.

    `vocabulary` names the words of a coded engine, see VOCABULARIES, and `habits` what it imitates,
    see SupportsHabits; both are empty for the engine as it is loaded.
    """

    name: str = attrs.field(converter=str)
    vocabulary: str = attrs.field(default="", validator=in_(("", *VOCABULARIES)))
    habits: tuple[str, ...] = attrs.field(
        default=(), converter=_tuple, validator=deep_iterable(in_(HABITS))
    )
    tapes: tuple[Tape, ...] = attrs.field(converter=_tapes)
    actions: tuple[Action, ...] = attrs.field(converter=_actions)

    def tape_of(self, stream: int) -> Tape:
        """Return the audio of the stream of that number."""
        return self.tapes[stream % len(self.tapes)]

    def as_json(self) -> str:
        """Return the session as a JSON document."""
        return json.dumps({"version": VERSION, **_described(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Session:
        """
        Return the session of a JSON document.

        Raises:
            ValueError: it is not such a document.

        """
        try:
            document = json.loads(text)
            if document.pop("version") == VERSION:
                return cls(**document)
            reason = "another version"
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error.args[0]}"
        raise ValueError(f"expected a session written by wlk-conformance, got {reason}")

    def listed(self) -> str:
        """Return the audio and the calls, a line each; equal calls in a row are one."""
        return "\n".join(f"    {line}" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for number, tape in enumerate(self.tapes):
            yield f"tape {number}: {json.dumps(_described(tape))}"
        chosen = _described(self)
        yield from (
            f"{name}: {chosen[name]}" for name in ("vocabulary", "habits") if name in chosen
        )
        for call, equal in groupby(json.dumps(_described(action)) for action in self.actions):
            count = sum(1 for _ in equal)
            yield call if count == 1 else f"{call}, {count} times"


Kind = Literal[
    "blocked", "invariant", "language", "clock", "missing", "extra", "spacing", "time", "raised",
    "differs",
]  # fmt: skip


@attrs.frozen
class Violation:
    """
    A rule that was broken.

    Attributes:
        rule: its id.
        message: what was fed, what was expected and what came.
        kind: "invariant" or "blocked" where the rule follows from the call alone.  For the other
            kinds it is a first guess, which the smallest session that still fails makes exact.
        stream: the name of the stream.
        twin: for kind "differs", the session whose words are others.

    """

    rule: str
    message: str
    kind: Kind = "invariant"
    stream: str = ""
    twin: Session | None = None
