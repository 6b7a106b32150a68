"""Captions in any script: where they end and never begin, and as SubRip and WebVTT."""
# ruff: noqa: RUF001 -- punctuation and letters of these scripts

from __future__ import annotations

from itertools import pairwise

import attrs
from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_core.errors import OptionError
from wlk_core.tokens import ASRToken
from wlk_live.captions.line_breaks import Lines, column_count, may_divide, wrapped
from wlk_live.captions.segments import (
    Layout,
    Segment,
    SegmentBuilder,
    segments_from_tokens,
    srt_cue,
    srt_text,
    text_cue,
    vtt_cue,
    vtt_text,
)
from wlk_live.records import segment_record

SECONDS, WIDTH = SegmentBuilder().max_seconds, Layout().max_line_width
COLUMNS = 2 * WIDTH
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
    """A token that continues a word or a character is in the caption where this one begins."""
    columns = COLUMNS - column_count(before)
    texts = [*"天" * (columns // 2), *" " * (columns % 2), before, after, "天"]
    found = captions(texts, step=0.01)

    assert "".join(found) == "".join(texts).replace(" ", "") or " " in texts
    assert len(found) == 2
    assert f"{before}{after}" in found[0] + found[1]
    assert not found[1].startswith(after)


def test_a_caption_ends_between_two_scripts():
    """A word in Latin letters stays whole between Chinese characters."""
    texts = [*"天" * 42, "Py", "thon", *"天" * 41]

    assert captions(texts, step=0.01) == ["天" * 42, "Python" + "天" * 39, "天天"]


def test_a_quoted_sentence_ends_after_its_quotation_mark():
    """The quotation mark does not begin the next caption."""
    assert captions("「今天。」「明天。」", step=0.3) == ["「今天。」", "「明天。」"]
    assert captions([" “", "Go", ".", "”", " Yes", "."], step=0.3) == ["“Go.”", "Yes."]


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


def test_a_cue_begins_with_its_speaker():
    """Markup in the text is escaped; in WebVTT the speaker is the voice."""
    segment = Segment(1.5, 2.25, "a <b> &\n c --> d", speaker="A>B")

    assert srt_cue(7, segment) == "7\n00:00:01,500 --> 00:00:02,250\nA>B: a <b> & c -> d\n\n"
    assert vtt_cue(7, segment) == (
        "00:00:01.500 --> 00:00:02.250\n<v A&gt;B>a &lt;b&gt; &amp; c --&gt; d\n\n"
    )


@pytest.mark.parametrize(
    ("speaker", "names", "name"),
    [(0, (), "Speaker 1"), (1, (), "Speaker 2"), (1, ("Anna", "Ben"), "Ben"), (2, ("A", "B"),
      "Speaker 3"), ("carl", ("Anna",), "carl"), (-1, (), "-1")],
)  # fmt: skip
def test_a_speaker_has_the_same_name_in_every_format(speaker, names, name):
    """Numbers count from 1 unless the user gave names; a label is a name already."""
    segment, layout = Segment(0.0, 1.0, "Yes.", speaker), Layout(speaker_names=names)

    assert text_cue(1, segment, layout) == f"{name}: Yes.\n"
    assert srt_cue(1, segment, layout).splitlines()[2] == f"{name}: Yes."
    assert vtt_cue(1, segment, layout).splitlines()[1] == f"<v {name}>Yes."
    assert segment_record(segment, names)["speaker"] == name


SENTENCE = "When I finally have some time to spare, I read the books that my grandmother gave me"


def test_a_cue_has_two_lines_that_end_with_clauses():
    """A clause ends a line if it is near the middle, else the lines are about equally long."""
    lines = srt_cue(1, Segment(0.0, 5.0, SENTENCE[:77])).splitlines()[2:]
    even = srt_cue(
        1, Segment(0.0, 5.0, "one two three four five six seven eight nine ten")
    ).splitlines()

    assert lines[:2] == [
        "When I finally have some time to spare,",
        "I read the books that my grandmother",
    ]
    assert even[2:4] == ["one two three four five", "six seven eight nine ten"]


def test_a_speaker_takes_room_from_the_first_line():
    """The name is part of the line in SubRip, and the same captions are in all formats."""
    words = spoken([f" {word}" for word in SENTENCE.split()], step=0.25)
    labelled = [attrs.evolve(word, speaker=1) for word in words]
    layout = Layout(speaker_names=("Anna", "Bartholomew Longname"))
    text = srt_text(labelled, layout)

    assert max(map(column_count, text.splitlines())) <= WIDTH
    assert text.count("Bartholomew Longname: ") == text.count("-->") > 1


def test_a_caption_that_is_full_ends_after_its_last_clause():
    """Words after the clause begin the next caption, unless they have been shown already."""
    texts = [f" {word}" for word in f"{SENTENCE} when I was small".split()]
    shown = SegmentBuilder(is_shown=True)
    ended = [shown.push(token) for token in spoken(texts)]

    assert captions(texts)[0] == "When I finally have some time to spare,"
    assert [each.text for each in ended if each] == [SENTENCE]


def test_a_short_pause_divides_a_caption_without_punctuation():
    """A caption that is full ends at the last pause for breath."""
    words = spoken([f" {word}" for word in ["nine", "eight", "seven"] * 9])
    later = [attrs.evolve(word, start=word.start + 0.4, end=word.end + 0.4) for word in words[12:]]

    first = segments_from_tokens([*words[:12], *later])[0]

    assert first.tokens == tuple(words[:12])


def test_a_line_and_a_caption_rather_do_not_end_with_an_abbreviation():
    """A title stays on the line of the name, if another place is near."""
    text = "We went with our friends and saw Dr. Smith and his family again and their Mr. Jones"
    texts = [f" {word}" for word in text.split()]

    assert wrapped(text[:63], 42) == [
        "We went with our friends and saw",
        "Dr. Smith and his family again",
    ]
    assert captions(texts, step=0.42)[1] == "Mr. Jones"


@pytest.mark.parametrize(("width", "count"), [(20, 1), (20, 2), (32, 2), (42, 3), (10, 4)])
@pytest.mark.parametrize("text", [SENTENCE * 3, CHINESE * 8, "เขาไป บ้าน. " * 12, "Ja. " * 40])
def test_lines_keep_to_the_layout(text, width, count):
    """Every line fits, and every caption has few enough of them."""
    layout = Layout(max_line_width=width, max_lines=count)
    tokens = spoken([f" {word}" for word in text.split()] if " " in text else text, step=0.2)
    cues = srt_text(tokens, layout).strip().split("\n\n")

    assert max(len(cue.splitlines()) for cue in cues) <= 2 + count
    assert max(column_count(line) for cue in cues for line in cue.splitlines()[2:]) <= max(
        width, 11
    )


@given(text=st.text("ab 今。，,.", max_size=60), width=st.integers(2, 20), indent=st.integers(0, 9))
def test_lines_counted_as_text_grows_are_those_of_the_whole(text, width, indent):
    """Token by token the number of lines is known that the whole text needs."""
    text = " ".join(text.split())
    lines = Lines(width, min(indent, width))
    for letter in text:
        lines = lines.extended(letter)
    found = wrapped(text, width, indent=min(indent, width))
    fits = all(column_count(line) <= width for line in found)

    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert all(may_divide(*pair) for pair in pairwise(found) if not text.count(" "))
    assert not fits or indent or lines.count == len(found)


@pytest.mark.parametrize("field", ["max_line_width", "max_lines"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "42"])
def test_a_layout_has_whole_numbers_above_zero(field, value):
    """Anything else is refused with the name of the option."""
    with pytest.raises(OptionError, match=field):
        Layout(**{field: value})


@pytest.mark.parametrize("names", ["Anna,Ben", [""], [1], 5])
def test_names_of_speakers_are_a_list(names):
    """A string would give each speaker one letter."""
    with pytest.raises(OptionError, match="expected `speaker_names` as a list of names"):
        Layout(speaker_names=names)


def test_captions_never_overlap_and_are_never_empty_in_time():
    """A word may reach into the next caption or have no length; its caption does neither."""
    tokens = [ASRToken(0.0, 3.0, "one."), ASRToken(2.5, 2.5, " Two")]

    assert segments_from_tokens(tokens) == (Segment(0.0, 2.5, "one."), Segment(2.5, 2.501, "Two"))


def test_words_without_length_are_one_after_another():
    """Three speakers at the same time have three cues, which do not overlap."""
    tokens = [ASRToken(1.0, 1.0, f" {name}.", speaker=name) for name in "abc"]
    found = segments_from_tokens(tokens)

    assert [each.text for each in found] == ["a.", "b.", "c."]
    assert all(before.shown_until <= after.start for before, after in pairwise(found))
    assert all(each.start < each.end <= each.shown_until for each in found)


def test_a_cue_is_shown_for_a_while_where_time_is_free():
    """It stays 0.8 s, or until the next cue; the caption's own times are those of its words."""
    tokens = [
        ASRToken(0.0, 0.1, "One."),
        ASRToken(5.0, 5.1, " Two."),
        ASRToken(5.6, 6.6, " three", speaker=1),
    ]
    found = segments_from_tokens(tokens)

    assert [(each.start, each.shown_until) for each in found] == [
        (0.0, 0.8),
        (5.0, 5.6),
        (5.6, 6.6),
    ]
    assert found[0].end == 0.1
    assert srt_cue(1, found[0]).splitlines()[1] == "00:00:00,000 --> 00:00:00,800"


def test_short_sentences_share_a_caption():
    """A sentence that would be shown for less than 0.8 s does not end a caption."""
    texts = [" Yes.", " No.", " I", " do", " not", " know.", " Maybe."]

    assert captions(texts, step=0.2) == ["Yes. No. I do not know.", "Maybe."]


def test_abbreviations_end_no_caption():
    """A title and its name are in one caption, however long the words take."""
    text = "Houses in the U.S. are old. Dr. Smith met Mr. Jones at 3 p.m. in St. Louis. Am 4. Juli."
    texts = [f" {word}" for word in text.split()]

    assert captions(texts, step=0.35) == [
        "Houses in the U.S. are old.",
        "Dr. Smith met Mr. Jones at 3 p.m. in St. Louis.",
        "Am 4. Juli.",
    ]


def test_a_file_numbers_its_cues():
    """SubRip counts from 1; WebVTT begins with its header, even without words."""
    tokens = [ASRToken(0.0, 1.0, " One."), ASRToken(1.5, 2.0, " Two")]

    assert srt_text(tokens) == (
        "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:01,500 --> 00:00:02,300\nTwo\n\n"
    )
    assert vtt_text(tokens) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nOne.\n\n00:00:01.500 --> 00:00:02.300\nTwo\n\n"
    )
    assert (srt_text([]), vtt_text([])) == ("", "WEBVTT\n\n")
