"""Qwen3-ASR on torch behind the seam: exactly what transformers' own classes compute."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

from safetensors.torch import load_file, save_file
import torch
import transformers

from wlk_core import ModelNotFoundError
from wlk_core.testing import connected_digits
from wlk_qwen3_simul.audio.encoding import IncrementalEncoder
from wlk_qwen3_simul.audio.frames import LEAD_SAMPLES
from wlk_qwen3_simul.simul.speak import speak
from wlk_qwen3_simul.torch_checkpoint import load_model
from wlk_qwen3_simul.torch_network import TorchNetwork

HEADS = ((1, 2), (0, 3), (1, 0))
CPU = torch.device("cpu")
AUDIO = connected_digits(16, seed=1).audio
BEFORE, BEHIND = [5, 6, 7], [8, 9, 10, 11]


@pytest.fixture(scope="module")
def model(checkpoint):
    """Return the tiny checkpoint as transformers' class."""
    return load_model(checkpoint, device=CPU, dtype=torch.float32)


@pytest.fixture(scope="module")
def network(model):
    """Return it behind the seam."""
    return TorchNetwork(model, alignment_heads=HEADS)


def reference(model, samples):
    """Return the embeddings of so many samples behind the silence of a run, by transformers."""
    told = transformers.Qwen3ASRFeatureExtractor()(
        np.concatenate([np.zeros(LEAD_SAMPLES, np.float32), AUDIO[:samples]]),
        sampling_rate=16_000,
        padding=True,
        return_attention_mask=True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        return model.get_audio_features(
            told["input_features"], told["attention_mask"], return_dict=True
        ).pooler_output


def test_the_incremental_encoder_is_that_of_the_whole_clip(model, network):
    """At every step, over windows that close and seconds that are short."""
    encoder = IncrementalEncoder(network)
    for samples in (3000, 8000, 16_000, 20_080, 100_000, 127_999, 128_000, 128_039, 140_000):
        heard = encoder.hear(AUDIO[:samples], first_sample=0)
        ours = torch.cat([one.embeddings for one in heard.windows])
        theirs = reference(model, samples)

        assert ours.numpy() == pytest.approx(theirs.numpy()[: len(ours)], abs=1e-5)
        # Under half a second, transformers tells of the zeros behind the audio as well, or not.
        assert len(theirs) == len(ours)


def embedded(model, heard):
    """Return the whole sequence as embeddings: before, audio, behind."""
    embed = model.get_input_embeddings()
    audio = [one.embeddings for one in heard.windows]
    return torch.cat([embed(torch.tensor(BEFORE)), *audio, embed(torch.tensor(BEHIND))])[None]


def test_rows_are_those_of_eager_attention(checkpoint, model, network):
    """Logits, weights on the audio, and the share of it, whatever kernel mixes the values."""
    heard = IncrementalEncoder(network).hear(AUDIO[:140_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + heard.tokens)
    looked = network.extend(network.open(), [BEFORE, *heard.windows, BEHIND], rows=2, audio=span)
    eager = load_model(checkpoint, device=CPU, dtype=torch.float32)
    eager.set_attn_implementation("eager")
    with torch.inference_mode():
        told = eager(inputs_embeds=embedded(model, heard), output_attentions=True)
    log_probs = told.logits[0, -2:].log_softmax(dim=-1).max(dim=-1)
    weights = [told.attentions[layer][0, head, -2:, slice(*span)] for layer, head in HEADS]
    shares = torch.stack([one / one.sum(dim=-1, keepdim=True) for one in weights]).mean(dim=0)

    assert log_probs.indices.tolist() == looked.ids.tolist()
    assert looked.log_probs == pytest.approx(log_probs.values.numpy(), abs=1e-4)
    assert looked.attention == pytest.approx(shares.numpy(), abs=1e-5)
    heed = torch.stack(weights).sum(dim=-1).mean(dim=0)
    assert looked.heed == pytest.approx(heed.numpy(), abs=1e-5)


def test_kept_positions_are_those_of_a_fresh_pass(network):
    """Several positions behind kept ones see all before them and none after."""
    heard = IncrementalEncoder(network).hear(AUDIO[:140_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + heard.tokens)
    fresh = network.extend(network.open(), [BEFORE, *heard.windows, BEHIND], rows=3, audio=span)
    memory = network.open()
    network.extend(memory, [BEFORE, *heard.windows, [40] * 300], rows=1, audio=span)
    memory.keep(len(BEFORE) + 104)
    kept = network.extend(memory, [*heard.windows[1:], BEHIND], rows=3, audio=span)

    assert fresh.ids.tolist() == kept.ids.tolist()
    assert kept.log_probs == pytest.approx(fresh.log_probs, abs=1e-5)
    assert kept.attention == pytest.approx(fresh.attention, abs=1e-6)


def test_greedy_tokens_are_those_of_passes_over_everything(model, network):
    """The loop written here says what the model's own forward says without a cache."""
    heard = IncrementalEncoder(network).hear(AUDIO[:50_000], first_sample=0)
    span = (len(BEFORE), len(BEFORE) + heard.tokens)
    spoken = speak(
        network,
        network.open(),
        [BEFORE, *heard.windows],
        forced=BEHIND,
        draft=(),
        room=8,
        ends=frozenset(),
        audio=span,
    )
    theirs: list[int] = []
    with torch.inference_mode():
        for _ in range(8):
            said = model.get_input_embeddings()(torch.tensor([theirs], dtype=torch.long))
            told = model(inputs_embeds=torch.cat([embedded(model, heard), said], dim=1))
            theirs.append(int(told.logits[0, -1].argmax()))

    assert theirs == list(spoken.ids)


def test_streams_leave_the_model_as_it_was(model, network):
    """Same modules, same hooks, same names, after passes that ended well and one that did not."""

    def inventory():
        return [
            (name, id(module), type(module), len(module._forward_hooks))
            for name, module in model.named_modules()
        ]

    before = inventory()
    memory = network.open()
    encoded = network.encode([network.convolve(np.zeros((128, 100), dtype=np.float32))])
    network.extend(memory, [BEFORE, encoded, BEHIND], rows=1, audio=(3, 16))
    with pytest.raises(IndexError):
        network.extend(memory, [[10**6]], rows=1, audio=(3, 16))

    assert before == inventory()
    assert len(BEFORE) + 13 + len(BEHIND) == memory.length


def test_both_layouts_are_the_same_model(tiny, tmp_path, checkpoint, model):
    """The original one by other names, key for key."""
    other = tiny.write_checkpoint(tmp_path / "hf", layout="hf")
    theirs = load_model(other, device=CPU, dtype=torch.float32).state_dict()

    assert "thinker_config" in json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    for name, weights in model.state_dict().items():
        assert torch.equal(weights, theirs[name])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.popitem(), r"1 missing \("),
        (lambda state: state.update(more=torch.zeros(3)), r"1 unknown \(more\)"),
        (
            lambda state: state.update({"thinker.model.norm.weight": torch.zeros(3)}),
            "1 of another shape|cannot be loaded",
        ),
        (lambda state: state.clear() or state.update(more=torch.zeros(3)), "missing"),
    ],
    ids=["a key too few", "a key too many", "another shape", "no key at all"],
)
def test_weights_that_do_not_fit_key_for_key_are_refused(tmp_path, checkpoint, spoil, message):
    """Random weights would say something, too."""
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    state = load_file(checkpoint / "model.safetensors")
    spoil(state)
    save_file(state, str(tmp_path / "model.safetensors"), metadata={"format": "pt"})

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_model(tmp_path, device=CPU, dtype=torch.float32)
    assert "pull the model again" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def spoilt(tmp_path, checkpoint):
    """Return what copies the tiny checkpoint with another config, and a head where one is given."""

    def make(config, *, head=None):
        for file in checkpoint.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        told = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
        config(told["thinker_config"])
        (tmp_path / "config.json").write_text(json.dumps(told), encoding="utf-8")
        if head is not None:
            state = load_file(checkpoint / "model.safetensors")
            state["thinker.lm_head.weight"] = head(state["thinker.model.embed_tokens.weight"])
            save_file(state, str(tmp_path / "model.safetensors"), metadata={"format": "pt"})
        return tmp_path

    return make


def untie(thinker):
    """Say that the head is not the embedding."""
    thinker["text_config"]["tie_word_embeddings"] = False


def untie_above(thinker):
    """Say so where the text config says nothing."""
    del thinker["text_config"]["tie_word_embeddings"]
    thinker["tie_word_embeddings"] = False


@pytest.mark.parametrize("config", [untie, untie_above])
def test_a_head_of_its_own_that_is_missing_is_refused(spoilt, config):
    """Nothing but the embedding may stand in for it, and only where the config says so."""
    with pytest.raises(ModelNotFoundError, match=r"1 missing \(lm_head\.weight\)"):
        load_model(spoilt(config), device=CPU, dtype=torch.float32)


def test_a_head_of_its_own_is_the_one_in_the_file(spoilt):
    """Where the config says that it is not the embedding."""
    loaded = load_model(spoilt(untie, head=lambda one: one + 1), device=CPU, dtype=torch.float32)

    assert torch.equal(loaded.get_input_embeddings().weight + 1, loaded.lm_head.weight)


def test_a_head_that_is_the_embedding_may_be_in_the_file(spoilt):
    """Some write it twice."""
    directory = spoilt(lambda _: None, head=lambda one: one.clone())
    loaded = load_model(directory, device=CPU, dtype=torch.float32)

    assert loaded.get_input_embeddings().weight is loaded.lm_head.weight


def test_a_head_that_is_not_the_embedding_it_is_said_to_be_is_refused(spoilt):
    """Which of the two is meant cannot be told, and engines choose differently."""
    with pytest.raises(ModelNotFoundError, match=r"an lm_head of their own.*pull the model again"):
        load_model(
            spoilt(lambda _: None, head=lambda one: one + 1), device=CPU, dtype=torch.float32
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", "x"),
        ("hidden_size", -1),
        ("hidden_size", None),
        ("num_attention_heads", 0),
        ("num_hidden_layers", [2]),
        ("hidden_act", "wave"),
        ("vocab_size", 1.5),
    ],
)
def test_a_config_that_makes_no_model_is_told_in_one_line(spoilt, name, value):
    """A word for a number is no defect of the loader."""
    directory = spoilt(lambda thinker: thinker["text_config"].update({name: value}))

    with pytest.raises(ModelNotFoundError, match="pull the model again") as caught:
        load_model(directory, device=CPU, dtype=torch.float32)
    assert "\n" not in str(caught.value)


def test_another_model_is_refused(tmp_path):
    """One line that says what came."""
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}', encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match="model_type='whisper'"):
        load_model(tmp_path, device=CPU, dtype=torch.float32)
