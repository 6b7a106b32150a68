"""The files beside the weights: wlk.json, generation config, tokenizer, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

import pytest

from wlk_core import ModelNotFoundError, OptionError
import wlk_whisper
from wlk_whisper.checkpoint import Checkpoint, GenerationConfig
from wlk_whisper.engine.tokenizer_file import read_tokenizer
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


TOKENS = [
    *("one", "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|fr|>", "<|su|>"),
    *("<|translate|>", "<|transcribe|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"),
]
IDS = {text: token for token, text in enumerate(TOKENS)}


def write_tokenizer(directory, tokens):
    """Write a tokenizer.json with *tokens* in the order of their ids."""
    vocabulary = {text: token for token, text in enumerate(tokens)}
    content = {"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "one"}}
    (directory / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("generation_config.json", {"lang_to_id": {"<|en|>": 3, "<|fr|>": 4, "<|su|>": 5}}),
        ("generation_config.json", {"task_to_id": {"translate": 6, "transcribe": 7}}),
        ("generation_config.json", {"no_timestamps_token_id": 10}),
        ("generation_config.json", {"suppress_tokens": [-1, 0, 2, 6, 7, 8, 9]}),
        ("config.json", {"lang_ids": [3, 4, 5]}),
        ("config.json", {"suppress_ids": [0, 2, 6, 7, 8, 9]}),
        ("vocabulary.json", TOKENS),
        ("vocabulary.txt", "\n".join(TOKENS) + "\n"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_tokenizer_with_a_language_fewer_is_refused(tmp_path, name, content):
    """All ids after the missing language are off by one, so the files of a model are compared."""
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text, encoding="utf-8")
    write_tokenizer(tmp_path, TOKENS)
    hf_tokenizer = read_tokenizer(tmp_path, n_vocab=len(TOKENS))
    write_tokenizer(tmp_path, [text for text in TOKENS if text != "<|su|>"])

    assert hf_tokenizer.token_to_id("<|transcribe|>") == IDS["<|transcribe|>"]
    with pytest.raises(ModelNotFoundError) as caught:
        read_tokenizer(tmp_path, n_vocab=len(TOKENS))
    assert str(caught.value).startswith(f"{tmp_path / 'tokenizer.json'} does not fit {name}: ")


def test_the_weights_of_published_models_tell_their_number_of_languages(tmp_path):
    """Without another file, 51866 rows belong to the tokenizer with Cantonese."""
    shutil.copy(DIGITS / "tokenizer.json", tmp_path)
    message = r"does not fit weights of 51866 rows: .* <\|notimestamps\|> is 50363, expected 50364"

    with pytest.raises(ModelNotFoundError, match=message):
        read_tokenizer(tmp_path, n_vocab=51_866)


def test_the_language_ids_of_english_only_models_are_not_read(tmp_path):
    """Those of the published files are off by one, and the models use none."""
    (tmp_path / "config.json").write_text(json.dumps({"lang_ids": [50259]}), encoding="utf-8")
    tokens = [str(number) for number in range(50362)] + ["<|notimestamps|>"]
    tokens[50256:50258] = ["<|endoftext|>", "<|startoftranscript|>"]
    write_tokenizer(tmp_path, tokens)

    assert read_tokenizer(tmp_path, n_vocab=51_864).token_to_id("<|endoftext|>") == 50256
