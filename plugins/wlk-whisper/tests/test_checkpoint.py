"""The files beside the weights: wlk.json, generation config, tokenizer, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlk_core import ModelNotFoundError, OptionError
import wlk_whisper
from wlk_whisper.checkpoint import Checkpoint, GenerationConfig
from wlk_whisper.engine.model_files import read_tokenizer
from wlk_whisper_digits import checkpoint_directory

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"


def test_the_config_is_read_from_the_directory(tmp_path):
    """What the file leaves out has its default."""
    table = {"languages": ["en"], "shorter_input": True, "cpu_threads": 1}
    (tmp_path / "wlk.json").write_text(json.dumps(table), encoding="utf-8")
    expected = Checkpoint(name="mine", languages=("en",), takes_shorter_input=True, cpu_threads=1)

    assert Checkpoint.read(tmp_path, name="mine") == expected


def test_the_two_formats_of_the_digits_declare_the_same():
    """They are one model, so languages, dtype and buffer are the same."""
    assert Checkpoint.read(checkpoint_directory(), name="digits") == Checkpoint.read(
        DIGITS, name="digits"
    )


@pytest.mark.parametrize(
    ("takes_shorter_input", "audio_context", "context"),
    [(False, None, "padded"), (True, None, "fitted"), (True, "full", "full")],
)
def test_the_option_overrides_the_window_of_the_checkpoint(
    takes_shorter_input, audio_context, context
):
    """Without the option a window is fitted if the checkpoint was trained for it."""
    checkpoint = Checkpoint(name="mine", takes_shorter_input=takes_shorter_input)

    assert checkpoint.context(audio_context) == context


def test_a_model_of_30_s_windows_takes_no_fitted_ones():
    """Fitted windows make a model that was not trained for them commit parts of words."""
    with pytest.raises(OptionError, match=r"trained on windows of 30 s .* padded"):
        Checkpoint(name="mine").context("fitted")


def test_a_language_without_a_token_is_refused(backend):
    """A multilingual model from before large-v3 has no token for Cantonese."""
    hf_tokenizer = backend.engine.model.hf_tokenizer
    model = {"is_multilingual": True, "hf_tokenizer": hf_tokenizer}
    checkpoint = Checkpoint(name="small")

    checkpoint.check(language="fr", task="translate", **model)
    with pytest.raises(OptionError, match="the model small has no token for the language 'yue'"):
        checkpoint.check(language="yue", task="transcribe", **model)


def test_heads_and_first_tokens_are_read(tmp_path):
    """An empty list of tokens differs from no list: text may begin with anything."""
    table = {"alignment_heads": [[2, 1], [3, 0]], "begin_suppress_tokens": [], "task": "ignored"}
    (tmp_path / "generation_config.json").write_text(json.dumps(table), encoding="utf-8")
    expected = GenerationConfig(alignment_heads=((2, 1), (3, 0)), begin_suppress_tokens=())

    assert GenerationConfig.read(tmp_path) == expected


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    """Decoding would fail in its first step."""
    content = json.dumps({"model": {"type": "WordLevel", "vocab": {"one": 0}, "unk_token": "one"}})
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"the token <\|startoftranscript\|> is missing"):
        read_tokenizer(tmp_path, n_vocab=51_865)
    with pytest.raises(ModelNotFoundError, match="is 50258, but there are 50000 rows"):
        read_tokenizer(DIGITS, n_vocab=50_000)
