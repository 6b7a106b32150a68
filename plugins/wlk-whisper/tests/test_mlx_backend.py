"""Whisper on MLX as a backend: the same words as faster-whisper, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

import pytest

pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

import mlx.core as mx

from wlk_core import (
    ModelNotFoundError,
    OptionError,
    StreamClosed,
    load_backend,
)
from wlk_core.testing import clip_names, load_clip
import wlk_whisper
from wlk_whisper.specs.mlx import MLX_WHISPER

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "mlx"
SECOND = 16_000


@pytest.fixture(scope="module")
def mlx():
    """Return mlx-whisper with the bundled checkpoint."""
    with load_backend("mlx-whisper", "digits") as loaded:
        yield loaded


def heard(loaded, name, **options):
    """Return the tokens of a clip, streamed by the second, and the stream."""
    stream = loaded.create_processor(language="en", **options)
    audio = load_clip(name).audio
    tokens = []
    for first in range(0, len(audio), SECOND):
        stream.insert_audio_chunk(audio[first : first + SECOND])
        tokens += stream.process_iter().committed
    return [*tokens, *stream.finish().committed], stream


def text(tokens):
    """Return the words of *tokens*."""
    return "".join(token.text for token in tokens).split()


@pytest.mark.slow
@pytest.mark.parametrize("name", clip_names())
def test_the_words_are_those_of_faster_whisper(mlx, backend, name):
    """One checkpoint in two formats: the same text, times within a frame, and probabilities."""
    ours, _ = heard(mlx, name, policy="local-agreement", tick_seconds=3.0)
    theirs, _ = heard(backend, name, tick_seconds=3.0)

    assert text(theirs) == text(ours)
    for one, other in zip(ours, theirs, strict=True):
        assert other.start == pytest.approx(one.start, abs=0.021)
        assert other.end == pytest.approx(one.end, abs=0.021)
        assert other.probability == pytest.approx(one.probability, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo", "fast"])
def test_alignatt_hears_the_digits_with_less_of_the_decoder(mlx, name):
    """The text that is committed is not decoded again: half the forwards, at most."""
    known = load_clip(name)
    attended, stream = heard(mlx, name)
    agreed, other = heard(mlx, name, policy="local-agreement")

    assert known.text.split() == text(attended) == text(agreed)
    assert 2 * stream.stats.decoder_forwards <= other.stats.decoder_forwards


def test_alignatt_is_the_default(mlx):
    """The better policy needs no option."""
    assert "alignatt" == MLX_WHISPER.policies[0]
    assert mlx.create_processor(policy="alignatt", border_frames=10)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"device": "cuda"}, "one of auto, cpu, gpu"),
        ({"dtype": "bfloat16"}, "one of auto, float32, float16"),
        ({"alignment_heads": "4.0"}, "the model has no head 4.0"),
        ({"alignment_heads": "all"}, "expected layer.head"),
        ({"lora_path": "adapter"}, "no option is called 'lora_path'"),
        ({"compute_type": "int8"}, "no option is called 'compute_type'"),
    ],
)
def test_loading_refuses_what_it_cannot_do(asked, told):
    """A wrong option says what would be right; MLX runs no LoRA adapters."""
    with pytest.raises(OptionError, match=told):
        load_backend("mlx-whisper", "digits", **asked)


def test_a_directory_of_another_format_is_named():
    """The message says what was expected and what is there."""
    other = DIGITS.parent / "transformers"

    with pytest.raises(ModelNotFoundError, match=r"transformers is no Whisper in mlx-whisper's"):
        load_backend("mlx-whisper", str(other))


def test_heads_come_from_the_generation_config_and_without_one_alignatt_is_refused(mlx, tmp_path):
    """The digits have a shape of their own: only their checkpoint knows which heads align."""
    told = json.loads((DIGITS / "generation_config.json").read_text(encoding="utf-8"))
    for name in ("config.json", "weights.safetensors"):
        shutil.copy(DIGITS / name, tmp_path)

    assert len(told["alignment_heads"]) > 0
    assert mlx.create_processor(policy="alignatt")
    with load_backend("mlx-whisper", str(tmp_path)) as bare:
        assert bare.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"policy=alignatt.*alignment_heads=.*local-agree"):
            bare.create_processor(policy="alignatt")
    with load_backend("mlx-whisper", str(tmp_path), alignment_heads="2.0, 3.1") as named:
        assert named.create_processor(policy="alignatt")


@pytest.mark.parametrize(
    "carried",
    [[[7, 0], [25, 6]], [[layer, head] for layer in (2, 3) for head in range(4)]],
    ids=["a parent's", "a converter's default"],
)
def test_heads_that_tell_nothing_leave_local_agreement_and_the_option(tmp_path, carried):
    """A distilled model is loaded; only AlignAtt asks for heads that somebody knows."""
    weights = dict(mx.load(str(DIGITS / "weights.safetensors")))
    weights["alignment_heads"] = mx.array(carried)
    mx.save_safetensors(str(tmp_path / "weights.safetensors"), weights)
    shutil.copy(DIGITS / "config.json", tmp_path)

    with load_backend("mlx-whisper", str(tmp_path)) as distilled:
        assert distilled.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"policy=alignatt.*alignment_heads=.*local-agree"):
            distilled.create_processor(policy="alignatt")
    with load_backend("mlx-whisper", str(tmp_path), alignment_heads="2.0,3.1") as named:
        assert named.create_processor(policy="alignatt")


def test_a_closed_backend_refuses_streams():
    """Streams that are open keep the model; new ones are refused."""
    closed = load_backend("mlx-whisper", "digits")
    closed.close()

    with pytest.raises(StreamClosed):
        closed.create_processor()


def test_every_size_has_a_repository_of_its_format():
    """But for the bundled one they are mlx-community's."""
    names = set(MLX_WHISPER.models.values()) - {"bundled"}

    assert all(name.startswith("mlx-community/") for name in names)
    assert {"tiny", "base", "small", "medium", "large", "turbo"} < MLX_WHISPER.models.keys()
    assert MLX_WHISPER.default_model in MLX_WHISPER.models
