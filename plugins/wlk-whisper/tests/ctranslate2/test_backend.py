"""faster-whisper as a backend: loading, and what it refuses."""

from __future__ import annotations

import pytest

from wlk_core import AudioFormatError, ModelNotFoundError, OptionError, StreamClosed, load_backend


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"language": "fr"}, "recognises en only"),
        ({"language": "xx"}, "does not support the language 'xx'"),
        ({"language": "en-US"}, "does not support the language"),
        ({"task": "translate"}, "choose a multilingual model to translate"),
        ({"task": "sing"}, "cannot do the task 'sing'"),
        ({"policy": "alignatt"}, "one of local-agreement"),
        ({"beam_size": 0}, "between 1 and 16"),
        ({"beam": 3}, "did you mean beam_size"),
        ({"device": "cpu"}, "given to load_backend"),
        ({"lora": "x"}, "no option is called 'lora'"),
    ],
)
def test_a_stream_refuses_what_it_cannot_do(backend, arguments, message):
    """No argument is ignored silently."""
    with pytest.raises(OptionError, match=message):
        backend.create_processor(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "one of auto, cpu, cuda"),
        ({"compute_type": "float16"}, "cannot run on cpu here"),
        ({"cpu_threads": "many"}, "is an int"),
    ],
)
def test_loading_refuses_what_it_cannot_do(options, message):
    """An invalid option is refused with the valid values."""
    with pytest.raises(OptionError, match=message):
        load_backend("faster-whisper", "digits", **{"device": "cpu", **options})


def test_a_directory_without_a_model_is_named(tmp_path):
    """The message names the expected files and the command that makes them."""
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(ModelNotFoundError, match="ct2-transformers-converter"):
        load_backend("faster-whisper", str(tmp_path))


def test_a_damaged_model_is_named(tmp_path):
    """A file that the engine cannot read is an error in one line."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.bin").write_bytes(b"nothing of the kind")

    with pytest.raises(ModelNotFoundError, match="could not be loaded"):
        load_backend("faster-whisper", str(tmp_path))


def test_the_digits_checkpoint_runs_in_float32(backend):
    """The checkpoint declares float32, because int8 costs a small model its accuracy."""
    assert "float32" == backend.compute_type


def test_a_closed_backend_refuses_streams():
    """Open streams keep the model; new ones are refused."""
    closed = load_backend("faster-whisper", "digits")
    stream = closed.create_processor()
    closed.close()

    with pytest.raises(StreamClosed):
        closed.create_processor()
    with pytest.raises(AudioFormatError):
        stream.insert_audio_chunk("not audio")
