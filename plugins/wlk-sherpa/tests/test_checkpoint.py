"""Directories of streaming models are recognised; all others are refused."""

from __future__ import annotations

from pathlib import Path
import shutil

from hypothesis import given
from hypothesis import strategies as st
from onnx_files import field, metadata
import pytest

from wlk_core import ModelNotFoundError, OptionError, load_backend
import wlk_sherpa
from wlk_sherpa.checkpoint import read_checkpoint, read_pieces

DIGITS = Path(wlk_sherpa.__file__).parent / "digits"
TOKENS = read_checkpoint(DIGITS).tokens
DIMENSIONS = ["encoder_dims", "query_head_dims", "value_head_dims", "left_context_len"]
COUNTS = ["num_heads", "num_encoder_layers", "cnn_module_kernels", "T", "decode_chunk_len"]
ZIPFORMER2 = {"model_type": "zipformer2", **dict.fromkeys(DIMENSIONS + COUNTS, "2,2")}
NEMO = dict.fromkeys(
    ["vocab_size", "window_size", "chunk_shift", "subsampling_factor"]
    + [f"cache_last_{kind}_dim{number}" for kind in ("channel", "time") for number in (1, 2, 3)],
    "8",
)
SIZES = ["vocab_size", "lfr_window_size", "lfr_window_shift", "encoder_output_size"]
PARAFORMER = dict.fromkeys([*SIZES, "decoder_num_blocks", "decoder_kernel_size"], "1")
PARAFORMER |= {"neg_mean": "-8.3,-8.6e-1", "inv_stddev": "0.1,0.2"}


@pytest.fixture
def checkpoint(tmp_path):
    """Return a copy of the digits model that a test can damage."""
    return shutil.copytree(DIGITS, tmp_path / "model")


def test_the_digits_are_a_transducer_with_small_states():
    """The files are read without sherpa-onnx."""
    checkpoint = read_checkpoint(DIGITS)

    assert (checkpoint.kind, checkpoint.model_type) == ("transducer", "lstm")
    assert checkpoint.state_bytes == 2 * 2 * 160 * 4  # h and c of two layers
    assert (checkpoint.tokens[0], *checkpoint.tokens[3:5]) == ("<blk>", "▁", "ze")
    assert (checkpoint.frame_seconds, checkpoint.word_gap) == (0.04, 0.1)


@pytest.mark.parametrize(
    ("names", "values", "kind", "frame_seconds"),
    [
        (["ctc-epoch-20.int8.onnx"], ZIPFORMER2, "zipformer2_ctc", 0.04),
        (["model.onnx"], {"model_type": "EncDecCTCModelBPE", **NEMO}, "nemo_ctc", 0.08),
        (["encoder.int8.onnx", "decoder.int8.onnx"], PARAFORMER, "paraformer", 0.04),
        (
            ["encoder.onnx", "decoder.onnx", "joiner.onnx"],
            {"model_type": "EncDecRNNTBPEModel", "pred_rnn_layers": 1, "pred_hidden": 640, **NEMO},
            "transducer",
            0.08,
        ),
    ],
    ids=["Zipformer2 CTC", "NeMo CTC", "Paraformer", "NeMo transducer"],
)  # fmt: skip
def test_other_kinds_are_known_by_files_and_metadata(tmp_path, names, values, kind, frame_seconds):
    """The first file declares the type and the sizes of the model."""
    (tmp_path / "tokens.txt").write_text("".join(f"t{n} {n}\n" for n in range(8)))
    for name in names:
        (tmp_path / name).write_bytes(metadata(**values))
    checkpoint = read_checkpoint(tmp_path)

    assert (checkpoint.kind, checkpoint.frame_seconds) == (kind, frame_seconds)
    assert [path.name for path in checkpoint.files.values()] == names


def test_the_longest_left_context_is_taken(checkpoint):
    """Some repositories have the same weights with several left contexts."""
    for role in ("encoder", "decoder", "joiner"):
        for left in ("left-64", "left-128"):
            shutil.copy(checkpoint / f"{role}.onnx", checkpoint / f"{role}-chunk-16-{left}.onnx")
        (checkpoint / f"{role}.onnx").unlink()
    names = [path.name for path in read_checkpoint(checkpoint).files.values()]

    assert len(names) == 3
    assert sum("left-128" in name for name in names) == 3


def test_int8_is_taken_where_it_is_wanted(checkpoint):
    """An int8 encoder is used with a float32 decoder, as in published models."""
    for role in ("encoder", "joiner"):
        shutil.copy(checkpoint / f"{role}.onnx", checkpoint / f"{role}.int8.onnx")
    names = {
        dtype: [path.name for path in read_checkpoint(checkpoint, dtype=dtype).files.values()]
        for dtype in ("auto", "float32", "int8")
    }

    assert names["auto"] == names["float32"] == ["encoder.onnx", "decoder.onnx", "joiner.onnx"]
    assert names["int8"] == ["encoder.int8.onnx", "decoder.onnx", "joiner.int8.onnx"]


def append(name, content):
    """Return a function that appends to a file in a directory."""

    def change(directory):
        with (directory / name).open("ab") as file:
            file.write(content)

    return change


def shift_tokens(directory):
    """Put another token before the first one, and leave out the last."""
    path = directory / "tokens.txt"
    texts = ["new", *(line.split()[0] for line in path.read_text().splitlines()[:-1])]
    path.write_text("".join(f"{text} {number}\n" for number, text in enumerate(texts)))


def test_symbols_of_a_decoding_graph_are_no_tokens(checkpoint):
    """Vocabularies of icefall end with them, and no model emits them."""
    append("tokens.txt", b"#0 19\n#1 20\n")(checkpoint)

    assert read_checkpoint(checkpoint).tokens[19:] == ("#0", "#1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "joiner.onnx").rename(d / "other.bin"), "as a paraformer, declares no"),
        (lambda d: [path.unlink() for path in d.glob("*.onnx")], "holds no"),
        (lambda d: (d / "encoder.onnx").rename(d / "x.onnx"), "got decoder.onnx, joiner.onnx, x"),
        (lambda d: (d / "encoder.onnx").write_bytes(b"\xff" * 99), "not an ONNX model"),
        (append("encoder.onnx", metadata(model_type="whisper")), "declares the model_type whisper"),
        (append("encoder.onnx", metadata(T="")), "no numbers for T, which sherpa-onnx needs"),
        (append("decoder.onnx", metadata(context_size="-2")), "no numbers for context_size"),
        (append("decoder.onnx", metadata(vocab_size=99)), "has 19 tokens, but"),
        (lambda d: (d / "tokens.txt").write_text("a b 1\n"), "a token and its id on every line"),
        (append("tokens.txt", b"ten 19\n"), r"\.txt has 20 tokens, but .*joiner\.onnx emits 19"),
        (shift_tokens, r"tokens\.txt has <blk> as number 1, but .*joiner\.onnx .* as number 0"),
        (lambda d: (d / "tokens.txt").unlink(), r"holds no tokens\.txt"),
        (append("joiner.onnx", field(1, 999)), "sherpa-onnx could not load"),
    ],
    ids=["Paraformer", "no model", "no encoder", "garbage", "type", "no size",
         "a negative size", "vocabulary", "tokens", "a token more", "shifted tokens", "no tokens",
         "ONNX Runtime's refusal"],
)  # fmt: skip
def test_what_sherpa_onnx_cannot_read_is_refused_before(checkpoint, change, message, capfd):
    """The library would end the process or flood the terminal; the error is one line."""
    change(checkpoint)
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("sherpa", str(checkpoint))

    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_beam_search_is_refused_where_there_is_none(tmp_path):
    """Otherwise, sherpa-onnx would end the process."""
    (tmp_path / "tokens.txt").write_text("".join(f"t{n} {n}\n" for n in range(8)))
    (tmp_path / "model.onnx").write_bytes(metadata(model_type="EncDecCTCModelBPE", **NEMO))

    with pytest.raises(OptionError, match="for which sherpa-onnx supports only greedy search"):
        load_backend("sherpa", str(tmp_path), beam_size=4)


def test_pieces_come_from_a_list_or_a_model_of_sentencepiece(checkpoint):
    """Both files have the text and score of each piece."""
    listed = read_pieces(checkpoint, TOKENS)
    (checkpoint / "bpe.vocab").unlink()
    assert read_pieces(checkpoint, TOKENS) == []
    score = b"\x15\x00\x00\x00\xc0"  # -2.0, a float in field 2
    pieces = (field(1, field(1, text) + score) for text, _ in listed)
    (checkpoint / "bpe.model").write_bytes(b"".join(pieces) + field(2, "trainer"))

    assert read_pieces(checkpoint, TOKENS) == [(text, -2.0) for text, _ in listed]
    (checkpoint / "bpe.model").write_bytes(field(1, score))
    with pytest.raises(ModelNotFoundError, match=r"bpe\.model is damaged"):
        read_pieces(checkpoint, TOKENS)


def test_pieces_of_another_vocabulary_are_refused(checkpoint):
    """Keyterms would be split into tokens that the model does not have."""
    (checkpoint / "bpe.vocab").write_text("<unk>\t0\n▁the\t-1\n▁of\t-2\n", encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"bpe\.vocab and tokens\.txt .*2 of 3 .*'▁the'"):
        load_backend("sherpa", str(checkpoint), beam_size=4)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Return a copy of the digits model, whose decoder each example overwrites."""
    return shutil.copytree(DIGITS, tmp_path_factory.mktemp("damaged") / "model")


@pytest.mark.slow
@given(
    changes=st.dictionaries(
        st.integers(0, 200) | st.integers(-200, -1), st.integers(0, 255), min_size=1, max_size=4
    ),
    length=st.none() | st.integers(0, 400) | st.integers(-200, -1),
)
def test_any_damage_is_read_or_refused_in_one_line(damaged, changes, length):
    """Bytes change at both ends of the file, where the sizes and the metadata are."""
    content = bytearray((DIGITS / "decoder.onnx").read_bytes())
    for place, value in changes.items():
        content[place] = value
    (damaged / "decoder.onnx").write_bytes(content[:length])
    try:
        read_checkpoint(damaged)
    except ModelNotFoundError as error:
        assert "\n" not in str(error)
