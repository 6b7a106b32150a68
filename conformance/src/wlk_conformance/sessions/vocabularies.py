"""Vocabularies of coded audio: words of scripts that are joined in different ways."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["VOCABULARIES", "Vocabulary"]

ATTACHED = frozenset(",!।。、ा")  # what follows a word without a space in any script


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
        """Whether each word begins with a space, so that a text is split into words by them."""
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
)
