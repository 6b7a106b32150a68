"""Decide where sentences end, token by token, in every script that models write."""

from __future__ import annotations

import json
from pathlib import Path
import re
import unicodedata

from wlk_core.streaming import is_unspaced

# Libraries that find sentences (pysbd 0.3.4, sentencex 1.0) need the whole text and its language,
# and neither knows the stops of Khmer and Tibetan.
_DATA = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
_WORDS = {name: frozenset(words.split()) for name, words in json.loads(_DATA).items()}
_ABBREVIATIONS = _WORDS["titles"] | _WORDS["abbreviations"] | _WORDS["before_numbers"]

# Sentence_Break=STerm of Unicode Annex 29 in the languages of Whisper, without the Burmese comma.
_STOPS = frozenset("!?‼⁇⁈⁉。｡．！？।॥۔؟։።፧፨။។៕།༎\u037e")  # noqa: RUF001 -- scripts of users
_DOTS = frozenset(".…")
_SPACED = frozenset("!?‼⁇⁈⁉.…;\u037e")  # end nothing without a space after them
_CLOSING = "\"'”’»›)]}」』）】］〉》｣ \u00a0\u202f"  # noqa: RUF001 -- French puts a space before »
_QUOTES = tuple(zip("“「『«(（", "”」』»)）", strict=True))  # noqa: RUF001 -- as above
#: Characters that end a clause inside a sentence.
CLAUSE_ENDS = tuple(",;:—–،؛，、；：՝፣፤፥၊៖")  # noqa: RUF001 -- as above
_WORD = re.compile(r"[^\s.\-–—/'’\"“”„«»(\[]+$")  # noqa: RUF001 -- the last part of a compound
_SHORT_NUMBER = re.compile(r"(?:^|\s)\W?\d{1,2}$")
_LIST_NUMBER = re.compile(r"(?:^|[.!?…]\s+)\W?\d+$")
_SYLLABLES = ("CJK", "HANGUL", "HIRAGANA", "KATAKANA", "ETHIOPIC", "YI ")  # one can be a word


def ends_sentence(
    text: str, after: str | None = None, *, language: str | None = None
) -> bool | None:
    """
    Return whether a sentence ends with *text*, None if the next token decides it.

    *text* is all of the sentence so far; *after* is the token that follows, None while it is
    unknown, and "" at the end of the text.  An end is rather missed than invented: there is none
    before a word in lower case, after a title or, unless a word such as "The" follows, after one
    letter, another abbreviation or a number that may be an ordinal (never one in English).
    """
    bare = text.rstrip().rstrip(_CLOSING)
    stem, stop = bare[:-1].rstrip(), bare[-1:]
    is_greek = stop == ";" and unicodedata.name(stem[-1:] or " ", "").startswith("GREEK")
    if not (stop in _STOPS or stop in _DOTS or is_greek) or not any(map(str.isalnum, stem)):
        return False
    if after == "":
        return True
    if after is None:
        is_quoting = text.count('"') % 2 or any(
            text.count(before) > text.count(after) for before, after in _QUOTES
        )
        return None if is_quoting or (stop in _DOTS and not _dot_ends(stem, None, None)) else True
    if not after.strip():
        return None
    if _goes_on(text, stop, after):
        return False
    return stop not in _DOTS or _dot_ends(stem, _next_word(after), language)


def _goes_on(text: str, stop: str, after: str) -> bool:
    """Return whether *after* continues the sentence whatever precedes its stop."""
    first, rest = after[0], after.strip()
    if all(each in _CLOSING or each in _STOPS or each in _DOTS for each in rest):
        return True  # the sentence ends after them
    is_spaced = text[-1].isspace() or first.isspace()
    if not is_spaced and (unicodedata.category(first)[0] == "M" or first in _CLOSING):
        return True
    if stop in _SPACED and not is_spaced and not is_unspaced(first):
        return True  # inside a number, an address or an abbreviation
    if text.rstrip()[-1] in "」』" and rest.startswith(("と", "っ")):
        return True  # Japanese: "..., she said"
    word = _next_word(rest)
    # Georgian has small letters only, which are their own title case.  "iPhone" is a name.
    is_small = word[:1].islower() and word[:1].title() != word[:1] and not word[1:2].isupper()
    return is_small and stop in _SPACED


def _dot_ends(stem: str, following: str | None, language: str | None) -> bool | None:
    """Return whether a full stop ends a sentence between *stem* and the word *following*."""
    match = _WORD.search(stem)
    word = match[0] if match else ""  # none before an ellipsis
    small = word[:1].lower() + word[1:]
    if small in _ABBREVIATIONS:  # that begins a sentence
        word = small
    is_letter = len(word) == 1 and word.isalpha()
    is_letter = is_letter and not unicodedata.name(word, "").startswith(_SYLLABLES)
    is_number = word[-1:].isdecimal()
    if word and not (is_letter or is_number or word in _ABBREVIATIONS):
        return True
    if following is None:
        return None
    if word in _WORDS["titles"]:
        return False
    if word in _WORDS["before_numbers"]:
        return not following[:1].isdecimal()
    is_cardinal = language is not None and language not in _WORDS["ordinal_languages"]
    may_end = is_number and (is_cardinal or not _SHORT_NUMBER.search(stem))
    is_first = following in _WORDS["sentence_starters"]  # which have a capital only there
    return not word or ((may_end or is_first) and not _LIST_NUMBER.search(stem))


def _next_word(text: str) -> str:
    match = re.search(r"[^\W_]+", text)
    return match[0] if match else ""
