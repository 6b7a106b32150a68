"""The table of Mistral's tokenizer."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_voxtral.tokenizer import TekkenTokenizer


def content(**audio):
    """Return a small tekken.json: four control tokens, the letters a to d, and one entry more."""
    names = ("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]")
    return {
        "config": {"default_vocab_size": 8, "default_num_special_tokens": 4},
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(bytes([97 + rank])).decode()}
            for rank in (2, 0, 1, 3, 4)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(names)
        ],
        "audio": {
            "transcription_format": "streaming",
            "transcription_delay_ms": 480,
            "streaming_n_left_pad_tokens": 32,
            **audio,
        },
    }


def test_ids_are_ranks_after_the_control_tokens():
    """Control tokens have no bytes, and neither have entries past the size of the vocabulary."""
    tokenizer = TekkenTokenizer.from_table(content())

    assert [b"", b"", b"", b"", b"a", b"b", b"c", b"d", b"", b""] == [
        tokenizer.piece(token_id) for token_id in range(10)
    ]
    assert (0, 1, 2, 3) == (
        tokenizer.bos_id,
        tokenizer.eos_id,
        tokenizer.pad_id,
        tokenizer.word_id,
    )


@pytest.mark.parametrize("delay", [80, 240, 480, 800, 2400])
def test_the_prompt_is_as_long_as_the_silence_and_the_delay(delay):
    """The prompt has the first id, and one id for each step of silence and of delay."""
    tokenizer = TekkenTokenizer.from_table(content(transcription_delay_ms=delay))

    assert delay == 80 * tokenizer.delay_steps
    assert (0, *[2] * (32 + delay // 80)) == tokenizer.prompt(tokenizer.delay_steps)


def test_the_silence_of_a_file_that_does_not_declare_it_is_that_of_the_published_model():
    """The model was trained with it in front of every utterance."""
    table = content()
    del table["audio"]["streaming_n_left_pad_tokens"]

    assert 32 == TekkenTokenizer.from_table(table).left_pad_steps


@given(
    st.one_of(
        st.integers(-100, 79),
        st.integers(2401, 5000),
        st.integers(80, 2400).filter(lambda delay: delay % 80),
    )
)
def test_any_other_delay_is_refused(delay):
    """The message gives the delays of the format."""
    with pytest.raises(ValueError, match="multiple of 80 ms from 80 to 2400"):
        TekkenTokenizer.steps_of(delay)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "missing required field `config`"),
        ([], "Expected `object`, got `array`"),
        ({**content(), "vocab": [{"rank": "0"}]}, r"got `str` - at `\$\.vocab\[0\]\.rank"),
        ({**content(), "vocab": [{"rank": 0, "token_bytes": "x"}]}, "base64|padding"),
        (content(streaming_n_left_pad_tokens=10**9), "streaming_n_left_pad_tokens"),
        (content(transcription_format="instruct"), "no streaming transcription"),
        (content(transcription_delay_ms=None), "no streaming transcription"),
        (content(transcription_delay_ms=100), "multiple of 80 ms"),
        ({**content(), "special_tokens": []}, r"\[STREAMING_PAD\], \[STREAMING_WORD"),
    ],
    ids=[
        "object", "list", "text rank", "no base64", "long prompt", "offline", "no delay",
        "odd delay", "no markers",
    ],
)  # fmt: skip
def test_another_file_is_refused(table, message):
    """The message gives what is missing."""
    with pytest.raises(ValueError, match=message):
        TekkenTokenizer.from_table(table)
