"""Whisper on torch as a backend: the words of faster-whisper, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

from safetensors.torch import load_file, save_file
import torch

from wlk_core import (
    BackendError,
    BackendUnavailable,
    ModelNotFoundError,
    OptionError,
    StreamClosed,
    load_backend,
)
from wlk_core.testing import StreamDriver, clip_names, connected_digits, load_clip, noise, silence
import wlk_whisper
from wlk_whisper.specs.torch import WHISPER
from wlk_whisper.torch_network import TorchRun

DIGITS = Path(wlk_whisper.__file__).parent / "digits"
POLICIES = ["alignatt", "local-agreement"]


@pytest.fixture(scope="module")
def whisper():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("whisper", "digits") as loaded:
        yield loaded


@pytest.fixture
def copied(tmp_path):
    """Return a directory with the checkpoint in it, to be spoilt."""
    place = tmp_path / "model"
    shutil.copytree(DIGITS / "transformers", place)
    shutil.copy(DIGITS / "ctranslate2" / "tokenizer.json", place)
    return place


def heard(backend, audio, **options):
    """Return the driver of a stream that has heard *audio* to its end."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio)
    driver.finish()
    return driver


def texts(driver):
    """Return the committed words without their spacing."""
    return [token.text.strip() for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("name", clip_names())
def test_the_words_are_those_of_faster_whisper(whisper, backend, name):
    """One checkpoint on two engines in float32: the same text, times and probabilities."""
    audio = load_clip(name).audio
    ours, theirs = heard(whisper, audio, policy="local-agreement"), heard(backend, audio)

    assert texts(theirs) == texts(ours)
    for one, other in zip(ours.tokens, theirs.tokens, strict=True):
        assert other.start == pytest.approx(one.start, abs=0.021)
        assert other.end == pytest.approx(one.end, abs=0.021)
        assert other.probability == pytest.approx(one.probability, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_says_what_the_beam_of_faster_whisper_says(whisper, backend, seed):
    """Ranking, length and pruning are CTranslate2's."""
    audio = connected_digits(8, seed=seed).audio
    options = {"beam_size": 4, "language": "en"}

    assert texts(heard(backend, audio, **options)) == texts(
        heard(whisper, audio, policy="local-agreement", **options)
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_fitted_window_says_what_the_full_one_says(whisper, policy):
    """Less is encoded for the same words."""
    audio = connected_digits(6, seed=4).audio
    full, fitted = (
        heard(whisper, audio, policy=policy, audio_context=context, language="en")
        for context in ("full", "fitted")
    )

    assert texts(full) == texts(fitted)
    assert fitted.processor.stats.encoder_frames < full.processor.stats.encoder_frames / 2


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "audio", [silence(6.0), noise(6.0, level=0.05, seed=2)], ids=["zeros", "white noise"]
)
def test_what_is_no_speech_gives_no_words(whisper, policy, audio):
    """Silence and noise commit nothing."""
    assert () == heard(whisper, audio, policy=policy).tokens


@pytest.mark.slow
def test_work_is_counted_by_pass(whisper):
    """Every pass of the decoder is one transfer, and its positions are those of faster-whisper."""
    stats = heard(whisper, load_clip("demo").audio, policy="local-agreement").processor.stats

    assert stats.decoder_forwards == stats.host_syncs > 0
    assert stats.decoder_positions >= stats.decoder_forwards
    assert 0 < stats.detokenised_ids < stats.decoder_positions


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("call", [1, 4, 30])
def test_a_fault_in_the_middle_of_a_text_loses_nothing(whisper, monkeypatch, policy, call):
    """A pass that fails changes nothing: tried again, the words are those without the fault."""
    audio = connected_digits(5, seed=7).audio
    expected = heard(whisper, audio, policy=policy, language="en").tokens
    passes, faults = [], 0

    def faulty(run, *arguments, **options):
        passes.append(None)
        if len(passes) == call:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(run, *arguments, **options)

    forward = TorchRun.forward
    monkeypatch.setattr(TorchRun, "forward", faulty)
    driver = StreamDriver(whisper.create_processor(policy=policy, language="en"))
    for first in range(0, len(audio), 16_000):
        driver.insert(audio[first : first + 16_000])
        try:
            driver.process()
        except BackendError as error:
            assert "CUDA out of memory" in str(error)
            faults += 1
    driver.drain()
    driver.finish()

    assert 1 == faults or len(passes) < call
    assert expected == driver.tokens


def test_the_digits_checkpoint_runs_in_float32(whisper):
    """It was saved in float16 and asks for float32: what it asks for is what runs (defect B58)."""
    assert torch.float32 == whisper._open().network.dtype


def test_warmup_runs_the_model(whisper):
    """It raises where the model does not run, and leaves nothing behind."""
    whisper.warmup()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"language": "fr"}, "hears en only"),
        ({"task": "translate"}, "choose a multilingual model to translate"),
        ({"policy": "simul"}, "one of alignatt, local-agreement"),
        ({"policy": "local-agreement", "border_frames": 10}, "takes no border_frames"),
        ({"border_frames": 300}, "between 0 and 250"),
        ({"alignment_heads": "2.0"}, "given to load_backend"),
    ],
)
def test_a_stream_refuses_what_it_cannot_do(whisper, asked, told):
    """Nothing the user says is dropped in silence."""
    with pytest.raises(OptionError, match=told):
        whisper.create_processor(**asked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"dtype": "int8"}, "one of auto, float32, float16, bfloat16"),
        ({"alignment_heads": "9.0"}, "the model has no head 9.0"),
        ({"alignment_heads": "two"}, r"expected layer\.head"),
        ({"compute_type": "int8"}, "no option is called 'compute_type'"),
    ],
)
def test_loading_refuses_what_it_cannot_do(asked, told):
    """A wrong option says what would be right."""
    with pytest.raises(OptionError, match=told):
        load_backend("whisper", "digits", **asked)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_absent_is_named(monkeypatch, device):
    """Nothing falls back to the CPU unasked."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    with pytest.raises(BackendUnavailable, match=f"device={device} was asked for and torch"):
        load_backend("whisper", "digits", device=device)


def test_a_copied_checkpoint_is_a_model(whisper, copied):
    """A directory with a tokenizer of its own needs nothing of the bundled one."""
    audio = connected_digits(2, seed=1).audio
    with load_backend("whisper", str(copied), dtype="float32") as loaded:
        assert texts(heard(whisper, audio)) == texts(heard(loaded, audio))


def test_sharded_weights_are_one_model(copied):
    """What is spread over files is put together."""
    state = load_file(copied / "model.safetensors")
    names = sorted(state)
    where = {}
    for part, some in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{part:05}-of-00002.safetensors"
        save_file({name: state[name] for name in some}, copied / file)
        where |= dict.fromkeys(some, file)
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))

    load_backend("whisper", str(copied)).close()


def spoil_nothing_left(place):
    """Take away the weights."""
    (place / "model.safetensors").unlink()


def spoil_pickled(place):
    """Leave a pickle in place of the weights."""
    (place / "model.safetensors").rename(place / "pytorch_model.bin")


def spoil_damaged(place):
    """Cut the weights."""
    whole = (place / "model.safetensors").read_bytes()
    (place / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def spoil_missing(place):
    """Leave a weight out and add another."""
    state = load_file(place / "model.safetensors")
    state["lm_head.weight"] = state.pop("model.decoder.layers.0.fc1.weight")
    save_file(state, place / "model.safetensors")


def spoil_shape(place):
    """Say that the model is wider than its weights."""
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"decoder_ffn_dim": 128}))


def spoil_kind(place):
    """Say that it is another model."""
    (place / "config.json").write_text(json.dumps({"model_type": "wav2vec2"}))


def spoil_heads(place):
    """Ask for heads that the width cannot be divided into."""
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"decoder_attention_heads": 7}))


def spoil_config(place):
    """Make the configuration unreadable."""
    (place / "config.json").write_text("{")


def spoil_config_kind(place):
    """Leave a list where a table belongs."""
    (place / "config.json").write_text("[]")


def spoil_shards(place):
    """Leave a list where the names of the files belong."""
    (place / "model.safetensors.index.json").write_text('{"weight_map": ["model.safetensors"]}')


def spoil_shard_names(place):
    """Leave numbers where the names of the files belong."""
    (place / "model.safetensors.index.json").write_text('{"weight_map": {"a": [1], "b": 2}}')


def spoil_tokenizer(place):
    """Take away the tokenizer."""
    (place / "tokenizer.json").unlink()


def spoil_escape(place):
    """Ask for weights outside the directory."""
    (place / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"proj_out.weight": "../model.safetensors"}})
    )


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_nothing_left, "wlk-core pull base --backend whisper"),
        (spoil_pickled, r"pytorch_model\.bin: pickled weights can run code.*save_pretrained"),
        (spoil_damaged, "is damaged"),
        (spoil_missing, r"1 missing \(model.decoder.layers.0.fc1.weight\); 1 unknown \(lm_head"),
        (spoil_shape, r"12 of another shape.*instead of"),
        (spoil_kind, "model_type='wav2vec2'"),
        (spoil_heads, "describes no Whisper: embed_dim must be divisible by num_heads"),
        (spoil_config, "cannot be read"),
        (spoil_config_kind, r"config\.json should be a table, got list; pull or convert"),
        (spoil_shards, r"weight_map in .*index\.json should be a table, got list"),
        (spoil_shard_names, r"expected a Whisper in transformers' format"),
        (spoil_tokenizer, r"tokenizer\.json cannot be read"),
        (spoil_escape, r"expected a Whisper in transformers' format"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_no_whole_model_is_named(copied, spoil, told):
    """Never random weights, never a pickle: one line says what is wrong and what helps."""
    spoil(copied)

    with pytest.raises(ModelNotFoundError, match=told) as caught:
        load_backend("whisper", str(copied))
    assert "\n" not in str(caught.value)


def test_a_model_without_alignment_heads_refuses_alignatt(copied):
    """The message names both ways out, and both are ways."""
    (copied / "generation_config.json").unlink()
    with load_backend("whisper", str(copied)) as bare:
        assert bare.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"alignment_heads=.*policy=local-agreement"):
            bare.create_processor()
    with load_backend("whisper", str(copied), alignment_heads="2.0,3.1") as named:
        assert named.create_processor()


def test_a_distilled_model_with_the_heads_of_its_parent_is_loaded(copied, caplog):
    """It is warned of, only AlignAtt is refused, and the option names the heads it has."""
    path = copied / "generation_config.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(told | {"alignment_heads": [[7, 0], [25, 6]]}), encoding="utf-8")
    with load_backend("whisper", str(copied)) as distilled:
        assert "names the alignment head 7.0" in caplog.text
        assert distilled.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"alignment_heads=.*policy=local-agreement"):
            distilled.create_processor(policy="alignatt")
    with load_backend("whisper", str(copied), alignment_heads="2.0,3.1") as named:
        assert named.create_processor(policy="alignatt")


def test_a_closed_backend_refuses_streams():
    """Streams that are open keep the model; new ones are refused."""
    closed = load_backend("whisper", "digits")
    stream = closed.create_processor(language="en")
    closed.close()
    stream.insert_audio_chunk(np.zeros(1600, dtype=np.float32))
    stream.finish()

    with pytest.raises(StreamClosed):
        closed.create_processor()


def test_every_size_of_faster_whisper_has_a_repository_of_openai_or_distil():
    """The same aliases mean the same models on both engines."""
    names = set(WHISPER.models.values()) - {"bundled"}

    assert all(name.startswith(("openai/whisper-", "distil-whisper/")) for name in names)
    assert {"tiny.en", "base", "small", "medium", "large-v3", "turbo"} < WHISPER.models.keys()
    assert WHISPER.default_model in WHISPER.models
