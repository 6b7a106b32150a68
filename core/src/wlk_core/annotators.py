"""What a session can add to words: speakers, translations and ends of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import attrs

from wlk_core._fields import (
    check,
    check_loader,
    check_name,
    is_mapping_of_texts,
    is_text,
    is_tuple_of_texts,
    is_whole,
    to_dict,
    to_tuple,
)
from wlk_core.option_values import resolve_options
from wlk_core.options import Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import WorkCounters
    from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText

__all__ = [
    "ANNOTATOR_CALLS",
    "AnnotatorKind",
    "AnnotatorSpec",
    "Diarizer",
    "Translator",
    "TurnDetector",
]

AnnotatorKind = Literal["diarizer", "translator", "turn-detector"]

#: What an annotator of each kind can do.
ANNOTATOR_CALLS: Mapping[str, tuple[str, ...]] = {
    "diarizer": ("insert_audio_chunk", "insert_silence", "process_iter", "reset", "close"),
    "translator": ("insert_tokens", "process_iter", "reset", "close"),
    "turn-detector": ("insert_audio_chunk", "end_of_turn", "reset", "close"),
}


class Diarizer(Protocol):
    """
    Find who speaks when in one stream of audio.

    Spans come late, at most `max_delay` seconds after they end, and in any order.  One thread at a
    time calls a diarizer.  A call of `process_iter` that raises has changed nothing: it is made
    again, at most three times in a row, and then the session goes on without the diarizer.  An
    insert that raises switches it off at once, because audio would miss.  A session never closes
    it: the program that loaded it does, after the End.
    """

    @property
    def max_delay(self) -> float:
        """How many seconds after its end a span comes at most, if `process_iter` is called."""
        ...

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        ...

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause whose audio is not given."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain by now, with `is_last` all of them; each span once."""
        ...

    def reset(self) -> None:
        """Return to the state of a new diarizer."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        ...


class Translator(Protocol):
    """
    Translate committed text as it comes.

    A translation is final and is returned once, with the times of the tokens that it translates.
    Calls and failures are those of a `Diarizer`.
    """

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens in their order; runs no model."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the clauses that can be translated by now; with `is_last` an utterance is over."""
        ...

    def reset(self) -> None:
        """Return to the state of a new translator."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        ...


class TurnDetector(Protocol):
    """
    Decide in a short pause whether the speaker has finished.

    A session asks in each pause, 0.2 s after the last frame of speech, and again when the text has
    changed since.  Calls and failures are those of a `Diarizer`.
    """

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; keeps what the model needs and runs no model."""
        ...

    def end_of_turn(self, text: str) -> float:
        """Return the probability in [0, 1] that the turn with this text is over."""
        ...

    def reset(self) -> None:
        """Forget the audio, because another utterance begins."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        ...


def _are_options(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(option, Option) for option in value)


@attrs.frozen(kw_only=True)
class AnnotatorSpec:
    """
    An annotator as its plugin declares it: constant data, and the name of what loads it.

    The hooks `wlk_diarizers`, `wlk_translators` and `wlk_turn_detectors` return such specs.

    Attributes:
        kind: "diarizer", "translator" or "turn-detector".
        name: what users type, of ``[a-z][a-z0-9-]*``; also the name of the entry point.
        api: the plugin API this spec was written for, a literal number.
        summary: one line.
        load: the name of the loader, "package.module:function", which is called as
            ``load(spec, model, **options)`` for each session and returns the annotator.
        options: every option, declared once.
        languages: the codes that a translator writes; empty for the other kinds.
        default_model: the model when none is named.
        requires: the distributions it needs at run time, each with the command that installs it.

    """

    kind: AnnotatorKind = attrs.field(
        validator=check(
            "diarizer, translator or turn-detector", get_args(AnnotatorKind).__contains__
        )
    )
    name: str = attrs.field(validator=check_name)
    api: int = attrs.field(validator=check("a whole number", is_whole))
    summary: str = attrs.field(validator=check("a text", is_text))
    load: str = attrs.field(validator=check_loader)
    options: tuple[Option, ...] = attrs.field(
        default=(), converter=to_tuple, validator=check("a list of Option objects", _are_options)
    )
    languages: tuple[str, ...] = attrs.field(
        default=(), converter=to_tuple, validator=check("a list of texts", is_tuple_of_texts)
    )
    default_model: str | None = attrs.field(
        default=None,
        validator=check("a text or None", lambda value: value is None or is_text(value)),
    )
    requires: Mapping[str, str] = attrs.field(
        factory=dict,
        converter=to_dict,
        validator=check("a mapping of distributions to commands", is_mapping_of_texts),
    )

    def resolved_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option, defaults filled in; OptionError on others."""
        return resolve_options(self.options, values, scope="backend", owner=self.name)
