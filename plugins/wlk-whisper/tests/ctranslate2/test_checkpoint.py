"""The files of a CTranslate2 model are compared before CTranslate2 reads them."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
import struct

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError
import wlk_whisper
from wlk_whisper.ctranslate2.checkpoint import check_files, read_model_header

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"


def text(name):
    """Return a text as a model.bin has it."""
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def model(*variables, spec="WhisperSpec", version=6, count=None):
    """Return a model.bin with *variables*, packed as CTranslate2's converters do."""
    number = len(variables) if count is None else count
    return (
        struct.pack("<I", version)
        + text(spec)
        + struct.pack("<II", 3, number)
        + b"".join(variables)
    )


def variable(name, shape, *, length, kind=4, data=b""):
    """Return a variable of float16 with *length* bytes, of which *data* is there."""
    sizes = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    return text(name) + sizes + struct.pack("<BI", kind, length) + data


def test_names_and_shapes_are_read():
    """The numbers are passed over."""
    variables = read_model_header(DIGITS / "model.bin")

    assert 138 == len(variables)
    assert (51865, 64) == variables["decoder/embeddings/weight"].shape
    assert () == variables["encoder/num_heads"].shape


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "unpack requires"),
        (model()[:12], "unpack requires|expected a WhisperSpec"),
        (model(version=3), "the unknown version 3"),
        (model(spec="TransformerSpec"), "contains a 'TransformerSpec', expected a WhisperSpec"),
        (model(count=10**9), "unpack requires"),
        (model(count=3), "unpack requires"),
        (model(variable("a", (2,), length=4)), "'a' lies outside of the file"),
        (model(variable("a", (2,), length=4, kind=9, data=bytes(4))), "'a' lies outside"),
        (model(variable("a", (10**9, 10**9), length=4, data=bytes(4))), "size of 'a' is not that"),
        (model(text("\xff").replace(b"\xc3\xbf", b"\xff\xff")), "can't decode"),
    ],
    ids=["empty", "cut", "version", "spec", "count", "end", "outside", "type", "shape",
         "name"],
)  # fmt: skip
def test_a_damaged_model_is_named(tmp_path, content, reason):
    """CTranslate2 would allocate what a shape declares."""
    (tmp_path / "model.bin").write_bytes(content)

    with pytest.raises(ModelNotFoundError, match=rf"model\.bin could not .*({reason})") as caught:
        read_model_header(tmp_path / "model.bin")
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=80))
def test_any_bytes_are_variables_or_an_error_in_one_line(tmp_path_factory, content):
    """No content has an error of its own."""
    path = tmp_path_factory.getbasetemp() / "model.bin"
    path.write_bytes(model()[:19] + content)
    try:
        assert isinstance(read_model_header(path), dict)
    except ModelNotFoundError as error:
        assert "\n" not in str(error)


def test_the_digits_are_sound():
    """Every check passes on a converted model."""
    check_files(DIGITS)


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
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path, file, change, message):
    """The message names the file and the key."""
    shutil.copytree(DIGITS, tmp_path, dirs_exist_ok=True)
    table = json.loads((tmp_path / file).read_text(encoding="utf-8"))
    (tmp_path / file).write_text(json.dumps(table | change), encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        check_files(tmp_path)
    assert file in str(caught.value)


def test_a_vocabulary_that_is_too_short_is_refused(tmp_path):
    """CTranslate2 would read past its end."""
    shutil.copytree(DIGITS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "vocabulary.json").write_text('["a"]', encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"vocabulary\.json .* 1 tokens, .* have 51865"):
        check_files(tmp_path)
