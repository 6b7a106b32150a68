"""The files of a CTranslate2 model are compared before CTranslate2 reads them."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError
import wlk_whisper
from wlk_whisper.ctranslate2.checkpoint import check_files, read_shapes

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"


def test_names_and_shapes_are_read():
    """The numbers are passed over."""
    shapes = read_shapes(DIGITS / "model.bin")

    assert 138 == len(shapes)
    assert (51865, 64) == shapes["decoder/embeddings/weight"]
    assert () == shapes["encoder/num_heads"]


@pytest.mark.parametrize("length", [0, 12, 100, 10_000, 1_000_000])
def test_a_model_that_was_cut_off_is_named(tmp_path, length):
    """A download that ended early is one line."""
    (tmp_path / "model.bin").write_bytes((DIGITS / "model.bin").read_bytes()[:length])

    with pytest.raises(ModelNotFoundError, match=r"model\.bin could not be loaded") as caught:
        read_shapes(tmp_path / "model.bin")
    assert "\n" not in str(caught.value)


def test_another_model_is_named(tmp_path):
    """CTranslate2 has models for texts, too."""
    content = (DIGITS / "model.bin").read_bytes().replace(b"WhisperSpec", b"TransfoSpec")
    (tmp_path / "model.bin").write_bytes(content)

    with pytest.raises(ModelNotFoundError, match="contains a 'TransfoSpec', expected a Whisper"):
        read_shapes(tmp_path / "model.bin")


@given(st.binary(max_size=80))
def test_any_bytes_are_shapes_or_an_error_in_one_line(tmp_path_factory, content):
    """No content has an error of its own."""
    path = tmp_path_factory.getbasetemp() / "model.bin"
    path.write_bytes((DIGITS / "model.bin").read_bytes()[:22] + content)
    try:
        assert isinstance(read_shapes(path), dict)
    except ModelNotFoundError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"alignment_heads": [[10**6, 0]]}, "names the layer 1000000, which the"),
        ("config.json", {"alignment_heads": [[0]]}, r"length 2, got 1 - at `\$\.alignment_heads"),
        ("config.json", {"suppress_ids": None}, r"got `null` - at `\$\.suppress_ids"),
        ("preprocessor_config.json", {"n_fft": 10**9}, "`int` <= 400"),
        ("preprocessor_config.json", {"hop_length": 0}, "`int` >= 160"),
        ("preprocessor_config.json", {"chunk_length": 10**6}, "`int` <= 30"),
        ("preprocessor_config.json", {"feature_size": 128}, "feature_size=128, and the weights"),
        ("vocabulary.json", ["a"], "it has 1 tokens, and the weights have 51865"),
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path, file, change, message):
    """The message names the file and the key."""
    shutil.copytree(DIGITS, tmp_path, dirs_exist_ok=True)
    if isinstance(change, dict):
        change = json.loads((tmp_path / file).read_text(encoding="utf-8")) | change
    (tmp_path / file).write_text(json.dumps(change), encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        check_files(tmp_path)
    assert file in str(caught.value)
