"""The chat turns around the audio, and the header that names the language of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_qwen3_simul.engine.vocabulary import (
    AUDIO_END,
    AUDIO_START,
    TEXT_START,
    TURN_END,
    TURN_START,
)
from wlk_qwen3_simul.languages import LANGUAGES, code_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_qwen3_simul.engine.vocabulary import Vocabulary

_NO_LANGUAGE = "None"  # what the model names for audio without speech
MAX_HEADER_TOKENS = 16  # the longest language names take five
_PREFIX = "language"


@attrs.frozen(kw_only=True, eq=False)
class ChatPrompt:
    """
    The chat turns of Qwen3-ASR as token ids; the audio tokens go between the two halves.

    Attributes:
        vocabulary: the tokenizer of the ids.
        before_audio: the system turn with the hotwords, and the start of the user's turn.
        after_audio: the end of the user's turn, and the start of the assistant's.

    """

    vocabulary: Vocabulary
    before_audio: tuple[int, ...]
    after_audio: tuple[int, ...]

    @classmethod
    def build(cls, vocabulary: Vocabulary, hotwords: str = "") -> ChatPrompt:
        """Build the turns with *hotwords* as the text of the system turn."""
        special, encode = vocabulary.special_ids, vocabulary.encode
        before = [
            *(special[TURN_START], *encode("system\n"), *encode(hotwords), special[TURN_END]),
            *encode("\n"),
            *(special[TURN_START], *encode("user\n"), special[AUDIO_START]),
        ]
        after = [
            *(special[AUDIO_END], special[TURN_END]),
            *encode("\n"),
            *(special[TURN_START], *encode("assistant\n")),
        ]
        return cls(vocabulary=vocabulary, before_audio=tuple(before), after_audio=tuple(after))

    def header(self, language: str | None) -> tuple[int, ...]:
        """Return the header that forces the language with code *language*; () to detect it."""
        return () if language is None else self._header_with(LANGUAGES[language])

    def headers(self, languages: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the headers for one of *languages* or for no speech; [] without languages."""
        names = [*(LANGUAGES[language] for language in languages), _NO_LANGUAGE]
        return [self._header_with(name) for name in names] if languages else []

    def _header_with(self, name: str) -> tuple[int, ...]:
        ids = self.vocabulary.encode(f"{_PREFIX} {name}")
        return (*ids, self.vocabulary.special_ids[TEXT_START])


def read_header(tokens: Sequence[int], vocabulary: Vocabulary) -> tuple[int, str | None] | None:
    """
    Return the length of the header before the text, `<asr_text>` included, and its language code.

    The code is None if the model names no language, or one that is not in LANGUAGES.  Without
    `<asr_text>` the header is incomplete and *tokens* are not a transcript: the result is None.
    """
    text_start = vocabulary.special_ids[TEXT_START]
    first = list(tokens[:MAX_HEADER_TOKENS])
    if text_start not in first:
        return None
    index = first.index(text_start)
    prefix, _, name = vocabulary.decode(first[:index]).strip().partition(" ")
    return index + 1, code_of(name) if prefix.casefold() == _PREFIX else None
