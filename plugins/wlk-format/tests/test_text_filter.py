from __future__ import annotations

from itertools import pairwise
import random

import pytest
from spoken import MASKS, formatted, lines, tokens_of, words

from wlk_conformance.text_filters import filtered
from wlk_core.plugins import OptionError
from wlk_core.registry import Registry
from wlk_format.engine.text_filter import FormatFilter, warn_of_unchanged_text

EVERYTHING = {"masks": MASKS, "entries": {"New York City": "NYC", "sequel": "SQL"}}
SENTENCES = [
    (line[0], line[1])
    for name in ("numbers.txt", "ordinary.txt", "masked.txt", "harmless.txt")
    for line in lines(name)
]


def pieces(text: str, rng: random.Random) -> list[str]:
    """Return *text* cut into tokens, some of which are parts of words."""
    texts = words(text)
    for at in range(len(texts)):
        cuts = sorted(rng.sample(range(2, len(texts[at])), 1)) if len(texts[at]) > 3 else []
        bounds = [0, *(cuts if rng.random() < 0.3 else []), len(texts[at])]
        texts[at] = "\0".join(texts[at][start:stop] for start, stop in pairwise(bounds))
    return "\0".join(texts).split("\0")


def test_a_clause_shown_token_by_token_gives_the_text_of_the_whole():
    """No word is settled too early, even if tokens are parts of words."""
    rng = random.Random(6)  # noqa: S311 -- reproducible, not secret
    filters = {code: FormatFilter(language=code, **EVERYTHING) for code in ("en", "de", "fr", "es")}
    for language, text in SENTENCES[::3]:
        tokens = tokens_of(pieces(text, rng))
        whole = "".join(filtered(filters[language], tokens, at_once=True))

        assert "".join(filtered(filters[language], tokens)) == whole, tokens


def test_words_that_cannot_be_part_of_a_number_are_settled_at_once():
    """Only the words wait that a later one could change."""
    text_filter = FormatFilter(language="en")
    counts = [
        text_filter.replace(tokens_of(words(text)), is_last=False)[1]
        for text in ("Hello", "Hello there", "We saw twenty", "We saw twenty five", "Only twenty.")
    ]

    assert counts == [1, 2, 2, 2, 2]


def test_words_keep_their_times():
    """A replacement spans the tokens that it stands for."""
    (replacement,), count = FormatFilter(language="en").replace(
        tokens_of([" I", " paid", " twenty", " five", " dollars", ","]), is_last=True
    )

    assert (replacement.start, replacement.stop, replacement.text, count) == (2, 6, " $25,", 6)


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("(twenty five people)", "(25 people)"),
        ("(sequel experts)", "(SQL experts)"),
        ("(shit happens)", "(**** happens)"),
        ("(jo@example.com is his)", "([email] is his)"),
        ("(call (212) 736-5000)", "(call [phone])"),
        ("((212) 736-5000 is his)", "([phone] is his)"),
        ("two one two (seven three six five zero zero one)", "[phone]"),
        ("+sequel +twenty five", "+SQL +25"),
    ],
)
def test_a_bracket_stays_unless_both_of_its_ends_are_replaced(spoken, written):
    """The plus goes only with the digits that are masked."""
    assert formatted(spoken, **EVERYTHING) == written


def test_the_detected_language_goes_before_the_given_one():
    """A recording can have several languages."""
    text_filter = FormatFilter(language="en")

    assert filtered(text_filter, tokens_of(["Twenty", " Euro"], "de")) == ["Twenty", " Euro"]
    assert filtered(text_filter, tokens_of(["Zwanzig", " Euro"], "de")) == ["20", " Euro"]
    assert filtered(text_filter, tokens_of(["Twenty"])) == ["20"]


@pytest.mark.parametrize(
    ("language", "reason"),
    [(None, "the language is unknown: choose it, such as with --language en"),
     ("it", "there are no rules for 'it', only for en, de, fr, es")],
)  # fmt: skip
def test_text_in_an_unknown_language_is_left_with_one_warning(language, reason, caplog):
    """Numbers are written only in languages with rules; a warning says so once a language."""
    warn_of_unchanged_text.cache_clear()
    for _ in range(2):
        text_filter = FormatFilter(language=language)
        assert filtered(text_filter, tokens_of(["Twenty", " five."])) == ["Twenty", " five."]

    assert len(caplog.messages) == 1
    assert reason in caplog.text


def test_clients_do_not_fill_the_log_with_languages_that_they_invent(caplog):
    """All languages that do not exist have one warning together."""
    warn_of_unchanged_text.cache_clear()
    for number in range(5):
        FormatFilter().prepare(f"x{number}")

    assert len(caplog.messages) == 1


def test_a_filter_that_needs_no_language_does_not_warn(caplog):
    """A user's replacements and the masks of digits are those of every language."""
    warn_of_unchanged_text.cache_clear()
    text_filter = FormatFilter(has_numbers=False, entries={"sequel": "SQL"})

    assert filtered(text_filter, tokens_of(["sequel"])) == ["SQL"]
    assert not caplog.messages


def test_a_language_is_not_a_path(tmp_path):
    """A client can choose the language, but not a file of the server."""
    (tmp_path / "words.txt").write_text("this", encoding="utf-8")

    for language in ("../profanity/en", str(tmp_path / "words")):
        assert formatted("This is shit.", language, **EVERYTHING) == "This is shit."


def test_the_filter_is_found_by_its_name():
    """The registry offers the filter with its options."""
    text_filter = Registry().load_annotator(
        "text-filter", "format", language="en", mask="profanity, email", replace="sequel=SQL"
    )
    text = "Twenty sequel shits of jo@example.com."

    assert "".join(filtered(text_filter, tokens_of(words(text)))) == "20 SQL ***** of [email]."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": "names"}, r"option mask as any of profanity, .* got 'names'"),
        ({"region": "Texas"}, r"option region as two capital letters, .* got 'Texas'"),
        ({"replace": "um="}, r"\"spoken=written\" or a name, got 'um='"),
        ({"numbers": "maybe"}, r"option numbers must be a bool; got 'maybe'"),
    ],
)
def test_a_wrong_option_is_refused(options, message):
    """The error says what was expected."""
    with pytest.raises(OptionError, match=message):
        Registry().load_annotator("text-filter", "format", **options)


def test_the_filter_has_no_models():
    """A model in "format=MODEL" is a mistake."""
    with pytest.raises(OptionError, match=r"format has no models; got 'tiny'"):
        Registry().load_annotator("text-filter", "format=tiny")
