"""Captions in any script: where they end and never begin, and as SubRip and WebVTT."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_core.tokens import ASRToken
from wlk_live.captions.line_breaks import column_count
from wlk_live.captions.segments import (
    Segment,
    SegmentBuilder,
    segments_from_tokens,
    srt_cue,
    srt_text,
    vtt_cue,
    vtt_text,
)

SECONDS, COLUMNS = SegmentBuilder().max_seconds, SegmentBuilder().max_characters
CHINESE = "今天天气很好我们一起去公园散步然后回家吃饭大家都很高兴"


def spoken(texts, step=0.1):
    """Return a token for each item of *texts*, one after another without a pause."""
    return [ASRToken(i * step, (i + 1) * step, text) for i, text in enumerate(texts)]


def captions(texts, step=0.1):
    """Return the text of each caption made from *texts*."""
    return [segment.text for segment in segments_from_tokens(spoken(texts, step))]


def test_a_text_without_spaces_ends_by_its_length():
    """It ends after seven seconds, as in any script, or two lines of 21 wide characters."""
    segments = segments_from_tokens(spoken(CHINESE * 10, step=0.25))

    assert "".join(segment.text for segment in segments) == CHINESE * 10
    assert max(segment.end - segment.start for segment in segments) == SECONDS
    assert len(segments) == -(-len(CHINESE * 10) // 28)
    assert [len(text) for text in captions((CHINESE * 4)[:108])] == [42, 42, 24]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("天", "。"),
        ("天", "、"),
        ("天", "」"),
        ("天", "』"),
        ("天", "\uff1f"),
        ("「", "天"),
        ("き", "ゃ"),
        ("ラ", "ー"),
        ("人", "々"),
        ("か", "\u3099"),  # two code points of one character
        ("\uff12", "\uff10"),
        ("中", "\U000e0100"),  # a variant of a character
        ("น", "้"),
        ("น", "า"),
        ("เ", "ข"),
        ("ຂ", "າ"),
        ("ក្", "ម"),
        ("天", "\U0001f3fd"),
        ("Py", "thon"),
        ("하", "늘"),  # Korean has spaces
    ],
)
def test_a_caption_begins_at_no_part_of_a_word_or_a_character(before, after):
    """A token that continues a word or a character stays in the caption beyond its limit."""
    columns = COLUMNS - column_count(before)
    texts = [*"天" * (columns // 2), *" " * (columns % 2), before, after, "天"]

    assert captions(texts, step=0.01) == ["".join(texts[:-1]), "天"]


def test_a_caption_ends_between_two_scripts():
    """A word in Latin letters stays whole between Chinese characters."""
    texts = [*"天" * 42, "Py", "thon", *"天" * 41]

    assert captions(texts, step=0.01) == ["天" * 42, "Python" + "天" * 39, "天天"]


def test_a_quoted_sentence_ends_after_its_quotation_mark():
    """The quotation mark does not begin the next caption."""
    assert captions("「今天。」「明天。」") == ["「今天。」", "「明天。」"]
    assert captions([" “", "Go", ".", "”", " Yes", "."]) == ["“Go.”", "Yes."]


def test_punctuation_after_a_pause_stays_with_its_word():
    """A model may emit the punctuation late; far away it is a caption of its own."""
    word, near, far = (ASRToken(t, t + 0.2, x) for t, x in ((0, "天"), (3, "。"), (9, "。")))

    assert [segment.text for segment in segments_from_tokens([word, near])] == ["天。"]
    assert [segment.text for segment in segments_from_tokens([word, far])] == ["天", "。"]


CHARACTERS = [
    *("今", "が", "か\u3099", "きゃ", "ー", "人々", "。", "」", "「", "、", "ｶﾞ", "한", "\uff15"),
    *("น้ำ", "เข้า", "ก็", "ក្មេ", "က္က", "๒", "a", " b", " word", " e\u0301", ".", " ", "\u200b"),
    *(" \U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469"),
]


@st.composite
def texts_of_any_script(draw):
    """Draw text of whole characters, and whether each of its code points is a token."""
    return draw(st.lists(st.sampled_from(CHARACTERS), max_size=300)), draw(st.booleans())


@given(drawn=texts_of_any_script(), step=st.sampled_from([0.01, 0.25, 2.0]))
@example(drawn=(["か\u3099"] * 300, True), step=0.25)
@example(drawn=(["が", " b"], True), step=2.0)
def test_captions_of_any_script_are_whole_and_short(drawn, step):
    """Joined they give the text; characters are divided only at twice the limits, the maximum."""
    characters, is_split = drawn
    text = "".join(characters)
    inner = set()  # positions inside characters
    end = 0
    for character in characters:
        end += len(character)
        inner |= set(range(end - len(character.strip()) + 1, end))
    tokens = spoken(text if is_split else characters, step)
    groups = grouped(tokens)

    assert "".join(token.text for group in groups for token in group) == text
    start = 0
    for group, after in zip(groups, [*groups, ()][1:], strict=True):
        width, seconds = extent(group)
        assert len(group) == 1 or (width <= 2 * COLUMNS and seconds <= 2 * SECONDS + 4 * step)
        start += len("".join(token.text for token in group))
        if start in inner and not is_twice_the_limits([*group, after[0]]):
            pytest.fail(f"a caption begins in the middle of a character, at {start} of {text!r}")


@given(
    texts=st.lists(st.sampled_from([*"今天がกข한", " a", " word", "。"]), max_size=300),
    step=st.sampled_from([0.01, 0.25]),
)
def test_captions_of_whole_words_keep_to_the_limits(texts, step):
    """Only closing punctuation exceeds them, after the last word that fits."""
    words = [t.rstrip("。") for t in captions(texts, step) if t != "。"]

    assert all(column_count(text) <= COLUMNS for text in words)


def extent(tokens):
    """Return the columns and seconds of a caption."""
    return column_count("".join(token.text for token in tokens)), tokens[-1].end - tokens[0].start


def is_twice_the_limits(tokens):
    """Return whether one caption of *tokens* would exceed twice the limits."""
    width, seconds = extent(tokens)
    return width > 2 * COLUMNS or seconds > 2 * SECONDS


def grouped(tokens):
    """Return the tokens of each caption."""
    builder, groups = SegmentBuilder(), []
    for token in tokens:
        if builder.push(token) is not None or not groups:
            groups.append([])
        groups[-1].append(token)
    return groups


@pytest.mark.parametrize(
    ("seconds", "stamp"),
    [
        (0.0, "00:00:00,000"),
        (1.2344, "00:00:01,234"),
        (59.9996, "00:01:00,000"),
        (3599.9999, "01:00:00,000"),
        (360000.0, "100:00:00,000"),
    ],
)
def test_time_stamps_carry_into_the_next_unit(seconds, stamp):
    """A time is rounded to milliseconds before it is split."""
    assert srt_cue(1, Segment(seconds, seconds, "x")).splitlines()[1].startswith(stamp)


def test_a_cue_is_text_on_one_line_after_its_speaker():
    """Markup in the text is escaped; in WebVTT the speaker is the voice."""
    segment = Segment(1.5, 2.25, "a <b> &\n c --> d", speaker="A>B")

    assert srt_cue(7, segment) == "7\n00:00:01,500 --> 00:00:02,250\nA>B: a <b> & c -> d\n\n"
    assert vtt_cue(7, segment) == (
        "00:00:01.500 --> 00:00:02.250\n<v A&gt;B>a &lt;b&gt; &amp; c --&gt; d\n\n"
    )


def test_captions_never_overlap_and_are_never_empty_in_time():
    """A word may reach into the next caption or have no length; its caption does neither."""
    tokens = [ASRToken(0.0, 3.0, "one."), ASRToken(2.5, 2.5, " two")]

    assert segments_from_tokens(tokens) == (Segment(0.0, 2.5, "one."), Segment(2.5, 2.501, "two"))


def test_a_file_numbers_its_cues():
    """SubRip counts from 1; WebVTT begins with its header, even without words."""
    tokens = [ASRToken(0.0, 1.0, " One."), ASRToken(1.5, 2.0, " Two")]

    assert srt_text(tokens) == (
        "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:01,500 --> 00:00:02,000\nTwo\n\n"
    )
    assert vtt_text(tokens) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nOne.\n\n00:00:01.500 --> 00:00:02.000\nTwo\n\n"
    )
    assert (srt_text([]), vtt_text([])) == ("", "WEBVTT\n\n")
