"""The ids around the audio: what the model is told before it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.text.vocabulary import (
    AUDIO_END,
    AUDIO_START,
    TEXT_START,
    TURN_END,
    TURN_START,
)

if TYPE_CHECKING:
    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["PromptBuilder"]


@attrs.frozen(kw_only=True, eq=False)
class PromptBuilder:
    """
    The chat turns of Qwen3-ASR, in which the audio stands between `before` and `after`.

    Attributes:
        before: system turn with the hotwords, and the beginning of the user's turn.
        after: end of the user's turn, and the beginning of the assistant's.

    """

    vocabulary: Vocabulary
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary, hotwords: str = "") -> PromptBuilder:
        """Build the turns with *hotwords*, the text of the system turn; "" for none."""
        mark, encode = vocabulary.marks, vocabulary.encode
        before = [mark[TURN_START], *encode("system\n"), *encode(hotwords), mark[TURN_END]]
        before += [*encode("\n"), mark[TURN_START], *encode("user\n"), mark[AUDIO_START]]
        after = [mark[AUDIO_END], mark[TURN_END], *encode("\n")]
        after += [mark[TURN_START], *encode("assistant\n")]
        return cls(vocabulary=vocabulary, before=tuple(before), after=tuple(after))

    def header(self, language: str | None) -> tuple[int, ...]:
        """Return how the assistant begins in *language*, a code; nothing where it shall say."""
        if language is None:
            return ()
        told = self.vocabulary.encode(f"language {LANGUAGES[language]}")
        return (*told, self.vocabulary.marks[TEXT_START])
