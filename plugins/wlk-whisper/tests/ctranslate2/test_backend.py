"""faster-whisper as a backend: loading, its files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

from faster_whisper import WhisperModel
import pytest

from wlk_core import ModelNotFoundError, OptionError, load_backend
import wlk_whisper
from wlk_whisper.ctranslate2.checkpoint import check_files, read_shapes

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "fr"}, "recognises en only"),
        ({"task": "translate"}, "choose a multilingual model to translate"),
        ({"policy": "alignatt"}, "one of local-agreement"),
    ],
)
def test_a_stream_refuses_what_it_cannot_do(backend, arguments, message):
    """No argument is ignored silently."""
    with pytest.raises(OptionError, match=message):
        backend.create_processor(**arguments)


@pytest.mark.parametrize("name", ["prompt", "keyterms"])
def test_a_prompt_that_is_too_long_is_one_warning(backend, caplog, name):
    """The stream opens, because OpenAI's own interface leaves out what Whisper does not take."""
    backend.create_processor(**{name: "and so on, " * 50})
    assert caplog.messages == []
    backend.create_processor(**{name: "and so on, " * 300})

    assert ["Whisper takes 223" in message for message in caplog.messages] == [True]


def test_an_arithmetic_that_the_device_lacks_is_refused():
    """The message lists those that it has."""
    with pytest.raises(OptionError, match="float16 cannot run on cpu here; expected one of: auto"):
        load_backend("faster-whisper", "digits", device="cpu", dtype="float16")


@pytest.mark.parametrize(
    ("cores", "options", "threads", "workers"),
    [
        (8, {}, 1, 8),
        (None, {"cpu_threads": "auto"}, 1, 1),
        (8, {"cpu_threads": 3}, 3, 2),
        (2, {"cpu_threads": 4}, 4, 1),
        (8, {"cpu_threads": 0}, 0, 1),
    ],
)
def test_the_digits_run_on_one_thread_and_streams_share_the_cores(
    monkeypatch, cores, options, threads, workers
):
    """A checkpoint declares its threads, and users override them; 0 is all cores for each call."""
    chosen = []

    def record(*arguments, **values):
        chosen.append((values["cpu_threads"], values["num_workers"]))
        return WhisperModel(*arguments, **{**values, "num_workers": 1})

    monkeypatch.setattr("wlk_whisper.ctranslate2.backend.WhisperModel", record)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    load_backend("faster-whisper", "digits", device="cpu", **options).close()

    assert chosen == [(threads, workers)]


def test_the_model_is_loaded_onto_the_gpu_that_the_option_names(monkeypatch):
    """cuda:1 is the second of those that CTranslate2 finds."""
    chosen = []

    def record(*arguments, **values):
        chosen.append((values["device"], values["device_index"]))
        return WhisperModel(*arguments, **{**values, "device": "cpu", "device_index": 0})

    monkeypatch.setattr("wlk_whisper.ctranslate2.backend.WhisperModel", record)
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 2)
    monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda _device: {"float32"})
    load_backend("faster-whisper", "digits", device="cuda:1").close()

    assert chosen == [("cuda", 1)]


@pytest.mark.parametrize(("dtype", "runs"), [("float16", "int8_float32"), ("float32", "float32")])
def test_a_checkpoint_runs_as_it_declares_if_the_cpu_can(monkeypatch, tmp_path, dtype, runs):
    """A type that the checkpoint declares and the device lacks is replaced by int8 on x86."""
    directory = shutil.copytree(DIGITS, tmp_path / "model")
    (directory / "wlk.json").write_text(json.dumps({"dtype": dtype}), encoding="utf-8")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")

    with load_backend("faster-whisper", str(directory), device="cpu") as loaded:
        assert loaded.engine.model.model.compute_type == runs


def test_names_and_shapes_are_read():
    """The weights themselves are skipped."""
    shapes = read_shapes(DIGITS / "model.bin")

    assert len(shapes) == 138
    assert shapes["decoder/embeddings/weight"] == (51865, 64)
    assert shapes["encoder/num_heads"] == ()


@pytest.mark.parametrize("length", [0, 12, 100, 10_000, 1_000_000])
def test_a_model_that_was_cut_off_is_named(tmp_path, length):
    """A download that ended early is an error of one line."""
    (tmp_path / "model.bin").write_bytes((DIGITS / "model.bin").read_bytes()[:length])

    with pytest.raises(ModelNotFoundError, match=r"model\.bin could not be loaded") as caught:
        read_shapes(tmp_path / "model.bin")
    assert "\n" not in str(caught.value)


def test_another_model_is_named(tmp_path):
    """CTranslate2 has models for text, too."""
    content = (DIGITS / "model.bin").read_bytes().replace(b"WhisperSpec", b"TransfoSpec")
    (tmp_path / "model.bin").write_bytes(content)

    with pytest.raises(ModelNotFoundError, match="expected a WhisperSpec, got 'TransfoSpec'"):
        read_shapes(tmp_path / "model.bin")


def test_a_directory_without_a_tokenizer_is_refused(tmp_path):
    """faster-whisper itself would take that of whisper-tiny, from the cache or from the hub."""
    directory = shutil.copytree(DIGITS, tmp_path / "model")
    (directory / "tokenizer.json").unlink()

    with pytest.raises(ModelNotFoundError, match=r"tokenizer\.json is missing; pull the model"):
        load_backend("faster-whisper", str(directory))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"alignment_heads": [[10**6, 0]]}, "names the layer 1000000, which the"),
        ("preprocessor_config.json", {"n_fft": 10**9}, "`int` <= 400"),
        ("vocabulary.json", ["a"], "it has 1 tokens, but the weights have 51865"),
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
