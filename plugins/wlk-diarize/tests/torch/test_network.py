"""The network streams like transformers itself, and the loader refuses other models."""

from __future__ import annotations

from functools import partial
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_core.registry import Registry
from wlk_diarize.engine.sortformer import LATENCIES

torch = pytest.importorskip("torch", reason="needs wlk-diarize[torch]")
transformers = pytest.importorskip("transformers", reason="needs wlk-diarize[torch]")
TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_mel_bins": 16}
HEAD = {"hidden_size": 16, "audio_hidden_size": 32}
CACHE = {"fifo_length": 12, "speaker_cache_update_period": 10, "speaker_cache_length": 24}
AUDIO = np.random.default_rng(2).normal(0, 0.1, 4 * 16_000 + 48).astype(np.float32)
load = partial(Registry().load_annotator, "diarizer", "sortformer", device="cpu")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Return the folder of a tiny model, with random weights that amplify every frame."""
    torch.manual_seed(1)
    parts = {"audio_config": TOWER, "head_config": HEAD, "streaming_config": CACHE}
    config = transformers.Nemotron3DiarizationConfig(**parts)
    model = transformers.Nemotron3DiarizationForAudioFrameClassification(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0, 1.5 * max(weight[0].numel(), 8) ** -0.5)
    folder = tmp_path_factory.mktemp("sortformer")
    model.save_pretrained(folder)
    extractor = transformers.NemotronAsrStreamingFeatureExtractor(feature_size=16)
    transformers.Nemotron3DiarizationProcessor(extractor).save_pretrained(folder)
    return folder


def diarize(diarizer, *, step=8_000):
    """Return all spans of the audio, inserted in chunks of *step* samples, and all scores."""
    spans, chunks, score = [], [], diarizer._network.score
    keep = lambda *given: chunks.append(score(*given)) or chunks[-1]  # noqa: E731 -- it is short
    diarizer._network = SimpleNamespace(score=keep)  # because the network is shared
    for start in range(0, len(AUDIO), step):
        diarizer.insert_audio_chunk(AUDIO[start : start + step])
        spans += diarizer.process_iter()
    return spans + diarizer.process_iter(is_last=True), chunks


@pytest.mark.parametrize("mode", ["low", "ultra-low"])
def test_the_probabilities_are_those_of_transformers_own_streaming(checkpoint, mode):
    """Chunks, features at their edges, cache and look-ahead follow its documentation."""
    processor = transformers.AutoProcessor.from_pretrained(checkpoint)
    processor.set_streaming_mode(f"{mode.replace('-', '_')}_latency")
    model = transformers.AutoModelForAudioFrameClassification.from_pretrained(checkpoint).eval()
    size, end, output, expected = processor.num_samples_first_audio_chunk, 0, None, []
    while end < len(AUDIO):
        start = processor.audio_chunk_start(len(expected)) if expected else 0
        end = start + size
        place = {"is_first_audio_chunk": not expected, "is_last_audio_chunk": end >= len(AUDIO)}
        inputs = processor(AUDIO[start:end], sampling_rate=16_000, is_streaming=True, **place)
        output = model(**inputs, speaker_cache=output and output.speaker_cache)
        expected += output.logits[0].sigmoid().tolist()
        size = processor.num_samples_per_audio_chunk
    _, chunks = diarize(load(checkpoint, latency=mode, dtype="float32"))
    found = np.concatenate([chunk[0] for chunk in chunks])

    assert output.speaker_cache.is_compressed
    assert found.shape == (400, 8)
    assert found == pytest.approx(np.array(expected), abs=1e-4)


@pytest.mark.parametrize("step", [320, 16_001, 400_000])
def test_the_cut_of_the_audio_changes_no_span(checkpoint, step):
    """Spans are bit-identical, and equal to those of a stream that shares the weights."""
    first, second = load(checkpoint, latency="low"), load(checkpoint, latency="low")

    assert first._network is second._network
    expected, _ = diarize(first)
    assert len({span.speaker for span in expected}) > 1
    assert diarize(second, step=step)[0] == expected


def test_work_and_state_do_not_grow(checkpoint):
    """The network gets its cache, its queue, and a chunk with its look-ahead."""
    diarizer = load(checkpoint, latency="low", dtype="float32")
    work = [diarizer.stats.encoder_frames for _ in range(3) if diarize(diarizer)]
    _, chunks = diarize(diarizer)
    tensors = [kept for kept in vars(chunks[-1][1]).values() if torch.is_tensor(kept)]

    assert work[2] - work[1] == pytest.approx(work[1] - work[0], rel=0.03)
    assert max(frames for _, _, frames in chunks) <= 8 * (24 + 12 + 9 + 2 * 4)
    assert sum(tensor.nbytes for tensor in tensors) == 4 * (24 * 32 + 24 * 8 + 12 * 32)


def test_the_options_are_a_latency_and_no_voices(checkpoint):
    """By default, latency is higher on a CPU; recordings of voices are not supported."""
    delays = [load(checkpoint, latency=name).max_delay for name in (*LATENCIES, "auto")]

    assert [round(delay, 2) for delay in delays] == [0.33, 1.05, 2.89, 10.57, 2.89]
    with pytest.raises(OptionError, match=r"sortformer: no option is called 'voices'"):
        load(checkpoint, voices="people")


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"model_type": "whisper"}, "its model_type is whisper"),
        ("config.json", {"audio_config": TOWER | {"num_hidden_layers": 3}}, "Missing key"),
        ("config.json", {"audio_config": TOWER | {"num_mel_bins": 80}}, "unsupported mel bins"),
        ("model.safetensors", None, "Nemotron 3 Diarization of transformers: SafetensorError"),
    ],
)
def test_a_wrong_model_is_refused_in_one_line(checkpoint, tmp_path, file, values, message):
    """The error begins with the directory, and ends with what is wrong with the file."""
    path = shutil.copytree(checkpoint, tmp_path / "copy") / file
    text = path.read_bytes()
    path.write_bytes(
        text[:-9] if values is None else json.dumps(json.loads(text) | values).encode()
    )

    with pytest.raises(ModelNotFoundError, match=rf"^{path.parent} .*{message}.*$"):
        load(path.parent)
