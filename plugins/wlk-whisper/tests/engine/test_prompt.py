"""The token budget of a stretch of audio."""

from __future__ import annotations

from faster_whisper.tokenizer import Tokenizer
import pytest

from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.model_files import read_tokenizer
from wlk_whisper.engine.prompt import token_budget

HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)


@pytest.mark.parametrize("seconds", [1, 12, 30])
def test_the_budget_is_larger_for_scripts_of_bytes(seconds):
    """Fifteen tokens a second, and three times as many where characters are bytes."""
    assert token_budget(16_000 * seconds, "en") >= 15 * seconds
    assert token_budget(16_000 * seconds, "my") >= 3 * 15 * seconds
    assert token_budget(16_000 * seconds, "my", task="translate") < 3 * 15 * seconds + 16


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("my", "ကျွန်တော်တို့ ဒီနေ့ အလုပ်သွားမယ်"),
        ("bo", "བཀྲ་ཤིས་བདེ་ལེགས།"),
        ("ka", "გამარჯობა დღეს სამსახურში მივდივარ"),
        ("te", "ఈ రోజు నేను పనికి వెళ్తున్నాను"),
        ("hi", "नमस्ते आज मैं काम पर जा रहा हूँ"),
        ("en", "hello today I am going to work"),
        ("ja", "こんにちは今日は仕事に行きます"),
        ("ru", "привет сегодня я иду на работу"),
    ],
)
def test_fast_speech_fits_the_budget_in_every_script(language, text):
    """Fifteen characters a second fit, whatever their number of tokens."""
    seconds = len(text) / 15
    tokenizer = Tokenizer(HF_TOKENIZER, True, task="transcribe", language=language)

    assert len(tokenizer.encode(text)) <= token_budget(round(16_000 * seconds), language)
