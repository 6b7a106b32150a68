"""Whisper on MLX as a backend: the words of faster-whisper, and what it refuses."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

import mlx.core as mx

from wlk_conformance.testing import StreamDriver, clip_names, load_clip
from wlk_core import ModelNotFoundError, OptionError, load_backend
from wlk_whisper.mlx.checkpoint import convert_config, convert_weights
from wlk_whisper_digits import checkpoint_directory

DIGITS = checkpoint_directory()


@pytest.fixture(scope="module")
def mlx():
    """Return mlx-whisper with the bundled checkpoint."""
    with load_backend("mlx-whisper", "digits") as loaded:
        yield loaded


def save_in_format_of_mlx(directory, **weights):
    """Write the digits in mlx-whisper's format, with *weights* and without a generation config."""
    saved = convert_weights(mx.load(str(DIGITS / "model.safetensors"))) | weights
    mx.save_safetensors(str(directory / "weights.safetensors"), saved)
    config = json.loads((DIGITS / "config.json").read_text(encoding="utf-8"))
    (directory / "config.json").write_text(json.dumps(convert_config(config)), encoding="utf-8")


def transcribe(backend, name, **options):
    """Return the driver of a finished stream of a clip."""
    driver = StreamDriver(backend.create_processor(language="en", **options))
    driver.feed(load_clip(name).audio)
    driver.finish()
    return driver


@pytest.mark.slow
@pytest.mark.parametrize("name", clip_names())
def test_the_words_are_those_of_faster_whisper(mlx, backend, name):
    """One checkpoint in two formats: the same text, times within a frame, and probabilities."""
    ours = transcribe(mlx, name, policy="local-agreement", tick_seconds=3.0)
    theirs = transcribe(backend, name, tick_seconds=3.0)

    assert theirs.text.split() == ours.text.split()
    for our_token, their_token in zip(ours.tokens, theirs.tokens, strict=True):
        assert their_token.start == pytest.approx(our_token.start, abs=0.021)
        assert their_token.end == pytest.approx(our_token.end, abs=0.021)
        assert their_token.probability == pytest.approx(our_token.probability, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo", "fast"])
def test_alignatt_recognises_the_digits_with_fewer_forwards(mlx, name):
    """Committed text is not decoded again, which saves at least half of the forwards."""
    clip = load_clip(name)
    alignatt = transcribe(mlx, name)
    agreement = transcribe(mlx, name, policy="local-agreement")
    forwards = [driver.processor.stats.decoder_forwards for driver in (alignatt, agreement)]

    assert clip.text.split() == alignatt.text.split() == agreement.text.split()
    assert 2 * forwards[0] <= forwards[1]


def test_a_directory_of_another_format_is_named(tmp_path):
    """The message has the expected format."""
    (tmp_path / "config.json").write_text('{"alignment_heads": [[2, 0]]}', encoding="utf-8")
    (tmp_path / "model.bin").touch()

    with pytest.raises(ModelNotFoundError, match=r"is not a Whisper in mlx-whisper's format"):
        load_backend("mlx-whisper", str(tmp_path))


@pytest.mark.parametrize(
    "heads",
    [[[7, 0], [25, 6]], [[layer, head] for layer in (2, 3) for head in range(4)]],
    ids=["a parent's", "a converter's default"],
)
def test_uninformative_heads_leave_local_agreement_and_the_option(tmp_path, heads):
    """A distilled model is loaded; only AlignAtt needs known heads."""
    save_in_format_of_mlx(tmp_path, alignment_heads=mx.array(heads))

    with load_backend("mlx-whisper", str(tmp_path)) as distilled:
        assert distilled.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"policy=alignatt.*alignment_heads=.*local-agree"):
            distilled.create_processor(policy="alignatt")
    with load_backend("mlx-whisper", str(tmp_path), alignment_heads="2.0,3.1") as named:
        assert named.create_processor(policy="alignatt")
