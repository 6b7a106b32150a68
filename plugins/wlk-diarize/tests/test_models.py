"""The two models are found, validated and shared among streams."""

from __future__ import annotations

import gc
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from tiny_models import embedding, segmentation
from tone_voices import tone, turns_of

from wlk_core.options import resolve_options
from wlk_core.plugins import ModelNotFoundError
from wlk_core.registry import Registry
from wlk_diarize import backend
from wlk_diarize.engine.networks import OnnxNetworks
from wlk_diarize.plugin import CLUSTERING

PUBLISHED = "3dspeaker_speech_campplus_sv_zh_en_16k-common_advanced.onnx"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files to a new folder and returns the folder."""

    def write(**files):
        folder = tmp_path / f"models-{len(list(tmp_path.iterdir()))}"
        for name, data in files.items():
            path = folder / name.replace("__", "/")
            path = path.with_name(path.name + ".onnx")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    return write


def load(model, **options):
    """Load the diarizer like the registry."""
    resolved = resolve_options(CLUSTERING.options, options, scope="backend", owner=CLUSTERING.name)
    return backend.load(CLUSTERING, str(model), **resolved)


def test_a_folder_with_both_models_is_a_diarizer(write):
    """The tiny models distinguish two voices by the sign of the samples."""
    diarizer = load(write(segmentation=segmentation(), embedding=embedding()))
    noise = np.random.default_rng(1).normal(0.0, 0.01, 32_000).astype(np.float32)
    beat = np.arange(32_000) % 8_000 < 1_600  # features lose their mean: a steady tone has none
    voices = tone(0, 2.0) * beat + noise + 0.3, tone(9, 2.0) * beat + noise - 0.3
    diarizer.insert_audio_chunk(np.concatenate([*voices, voices[0]]))
    spans = diarizer.process_iter(is_last=True)

    assert [speaker for speaker, _, _ in turns_of(spans)] == [0, 1, 0]
    assert diarizer.stats.encoder_frames > 600


def test_models_may_lie_apart_under_their_published_names(write):
    """Each model can have its own directory, as on the hub."""
    first = write(onnx__model=segmentation())
    second = write(**{PUBLISHED.removesuffix(".onnx"): embedding()})

    assert load(first, embedding_model=str(second)).max_delay > 0


def test_the_registry_loads_the_diarizer_by_its_name(write):
    """The name can include its folder, as on the command line."""
    folder = write(segmentation=segmentation(), embedding=embedding())
    registry = Registry([EntryPoint("clustering", "wlk_diarize.plugin", "wlk.plugins")])
    diarizer = registry.load_annotator("diarizer", f"clustering={folder}")

    assert diarizer.process_iter(is_last=True) == []


def test_streams_share_the_models_while_any_of_them_is_open(write):
    """A server with many sessions loads the weights once."""
    folder = write(segmentation=segmentation(), embedding=embedding())
    first, second = load(folder), load(folder)

    assert first._networks is second._networks
    del first, second
    gc.collect()
    assert len(backend._loaded) == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"segmentation": b"no model", "embedding": embedding()},
            r"not a model that takes float32",
        ),
        ({"segmentation": segmentation(9), "embedding": embedding()}, r"\[1, frames, 7\], got"),
        ({"segmentation": segmentation(), "embedding": segmentation()}, r"\[1, 200, 80\]"),
        ({"segmentation": embedding(), "embedding": embedding()}, r"\[1, 1, 160000\]"),
        ({"embedding": embedding()}, r"holds no segmentation.onnx or onnx/model.onnx"),
    ],
    ids=["damaged", "other classes", "no embedding", "no segmentation", "half of it"],
)
def test_a_wrong_model_is_refused_when_it_is_loaded(write, files, message):
    """The message names the file and what was expected."""
    with pytest.raises(ModelNotFoundError, match=message):
        load(write(**files))


def test_a_frame_of_the_segmentation_is_put_where_its_audio_is(write):
    """The boundary between two voices is off by less than a frame, 17 ms."""
    folder = write(segmentation=segmentation(), embedding=embedding())
    networks = OnnxNetworks(folder / "segmentation.onnx", folder / "embedding.onnx")
    audio = np.concatenate([np.full(40_000, 0.2), np.full(40_000, -0.2)]).astype(np.float32)
    active = networks.segment(audio)

    assert active.shape == (80_000 // 270, 3)
    assert int(active[:, 1].argmax()) == pytest.approx(40_000 / 270, abs=1.0)


def test_an_embedding_has_length_one_and_does_not_depend_on_the_level(write):
    """Features are logarithms minus their mean."""
    folder = write(segmentation=segmentation(), embedding=embedding())
    networks = OnnxNetworks(folder / "segmentation.onnx", folder / "embedding.onnx")
    sound = np.random.default_rng(1).normal(0.0, 0.1, 16_000).astype(np.float32)
    loud, soft = networks.embed(sound), networks.embed(sound * 0.25)

    assert float(np.linalg.norm(loud)) == pytest.approx(1.0, abs=1e-5)
    assert loud == pytest.approx(soft, abs=1e-2)
