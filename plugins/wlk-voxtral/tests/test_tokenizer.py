"""The tokenizer table in a tekken.json."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_voxtral.tokenizer import TekkenTokenizer


@pytest.fixture
def content(tekken_json):
    """Return a function that returns the table of a tekken.json with some audio keys changed."""

    def table(**audio):
        table = json.loads(tekken_json)
        return {**table, "audio": {**table["audio"], **audio}}

    return table


def test_ids_are_ranks_after_the_control_tokens(content):
    """Neither control tokens nor entries beyond the size of the vocabulary have bytes."""
    table = content()
    table["vocab"] = [*reversed(table["vocab"]), {"rank": 256, "token_bytes": "eA=="}]
    tokenizer = TekkenTokenizer.from_table(table)
    ids = (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.word_id)

    assert ids == (0, 1, 2, 3)
    assert [tokenizer.piece(i) for i in (3, 4 + 97, 259, 260)] == [b"", b"a", b"\xff", b""]


@pytest.mark.parametrize("delay", [80, 480, 2400])
def test_the_prompt_is_as_long_as_the_silence_and_the_delay(content, delay):
    """The prompt has a first id, and an id for each step of the silence and the delay."""
    tokenizer = TekkenTokenizer.from_table(content(transcription_delay_ms=delay))

    assert 80 * tokenizer.delay_steps == delay
    assert tokenizer.prompt(tokenizer.delay_steps) == (0, *[2] * (32 + delay // 80))


@given(
    st.one_of(
        st.integers(-100, 79),
        st.integers(2401, 5000),
        st.integers(80, 2400).filter(lambda delay: delay % 80),
    )
)
def test_any_other_delay_is_refused(delay):
    """The message names the delays of the format."""
    with pytest.raises(ValueError, match="multiple of 80 ms from 80 to 2400"):
        TekkenTokenizer.steps_of(delay)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab": [{"rank": 0, "token_bytes": "x"}]}, "base64|padding"),
        ({"audio": {"transcription_format": "instruct"}}, "transcription_format is not streaming"),
        ({"vocab": [{"rank": n, "token_bytes": "eA=="} for n in (0, 2)]}, "rank 2 in place 1"),
        ({"vocab": [{"rank": n, "token_bytes": "eA=="} for n in (1, 2)]}, "rank 1 in place 0"),
        (
            {"config": {"default_num_special_tokens": 3, "default_vocab_size": 260}},
            "declares 3 special",
        ),
        ({"special_tokens": []}, r"\[STREAMING_PAD\], \[STREAMING_WORD"),
    ],
    ids=["no base64", "offline", "a gap", "shifted", "more specials", "no markers"],
)
def test_another_file_is_refused(content, change, message):
    """The message says what is missing."""
    with pytest.raises(ValueError, match=message):
        TekkenTokenizer.from_table({**content(), **change})
