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
    """Return the embeddings of so many samples, by transformers alone."""
    told = transformers.Qwen3ASRFeatureExtractor()(
        AUDIO[:samples],
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
    for samples in (3000, 8000, 16_000, 20_080, 100_000, 128_000, 128_039, 128_040, 140_000):
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
        (lambda state: state.clear() or state.update(more=torch.zeros(3)), "missing"),
    ],
    ids=["a key too few", "a key too many", "no key at all"],
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


def test_another_model_is_refused(tmp_path):
    """One line that says what came."""
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}', encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match="model_type='whisper'"):
        load_model(tmp_path, device=CPU, dtype=torch.float32)
