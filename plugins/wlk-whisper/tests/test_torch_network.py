"""Whisper's layers on torch: the same numbers as transformers' own forward, in any pieces."""

from __future__ import annotations

from pathlib import Path
import threading

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

import wlk_whisper
from wlk_whisper.decoder.rules import Rules
from wlk_whisper.decoder.search import decode
from wlk_whisper.torch_checkpoint import load_whisper
from wlk_whisper.torch_network import TorchNetwork

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "transformers"
HEADS = ((3, 2), (1, 0), (2, 3))  # in no order
TEXT = (50258, 50259, 50359, 50363, 1732, 4018, 732, 1045, 3124)


@pytest.fixture(scope="module")
def whisper():
    """Return the bundled checkpoint as transformers' modules."""
    return load_whisper(DIGITS, device=torch.device("cpu"), dtype=torch.float32)


@pytest.fixture(scope="module")
def network(whisper):
    """Return it behind the seam."""
    return TorchNetwork(whisper, alignment_heads=HEADS)


def features(frames, seed=0):
    """Return noise in the range of log-mel features."""
    return np.random.default_rng(seed).uniform(-1, 1, size=(80, frames)).astype(np.float32)


def test_a_full_window_gives_what_transformers_gives(whisper, network):
    """Logits and attention equal those of the model's own forward."""
    heard = features(3000)
    ids = np.array([TEXT])
    whisper.set_attn_implementation("eager")  # the only one that returns attention
    with torch.inference_mode():
        expected = whisper(
            input_features=torch.from_numpy(heard)[None],
            decoder_input_ids=torch.from_numpy(ids),
            output_attentions=True,
        )
    found = network.begin(network.encode(heard)).forward(ids, keep=range(len(TEXT)), attend=True)
    attention = [expected.cross_attentions[layer][0, head].numpy() for layer, head in HEADS]

    np.testing.assert_allclose(expected.logits.numpy(), found.logits, rtol=1e-5, atol=5e-5)
    np.testing.assert_allclose(np.stack(attention), found.attention[0], atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [
        {"num_mel_bins": 128, "encoder_layers": 3, "decoder_layers": 1},
        {"encoder_attention_heads": 2, "decoder_attention_heads": 8},
        {"activation_function": "relu", "tie_word_embeddings": False},
    ],
    ids=["distilled from large-v3", "heads of two sizes", "untied"],
)
def test_any_shape_of_whisper_gives_what_transformers_gives(tmp_path, shape):
    """Whatever the configuration says is what runs."""
    torch.manual_seed(1)
    small = {"d_model": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "vocab_size": 90}
    ids = {"pad_token_id": 3, "bos_token_id": 3, "eos_token_id": 3, "decoder_start_token_id": 4}
    config = WhisperConfig(**small, **ids, max_source_positions=40, **shape)
    model = WhisperForConditionalGeneration(config).eval()
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    heard = np.random.default_rng(0).normal(size=(config.num_mel_bins, 80)).astype(np.float32)
    tokens = np.array([[4, 10, 20, 30], [4, 50, 60, 70]])
    with torch.inference_mode():
        expected = model(
            input_features=torch.from_numpy(heard)[None].expand(2, -1, -1),
            decoder_input_ids=torch.from_numpy(tokens),
            output_attentions=True,
        )
    loaded = load_whisper(tmp_path, device=torch.device("cpu"), dtype=torch.float32)
    network = TorchNetwork(loaded, alignment_heads=((0, 1), (0, 0)))
    run = network.begin(network.encode(heard))
    run.reorder([0, 0])
    found = run.forward(tokens, keep=range(4), attend=True)

    assert (config.num_mel_bins, 90, 448) == (
        network.mels,
        network.vocabulary,
        network.text_positions,
    )
    np.testing.assert_allclose(expected.logits.numpy(), found.logits, rtol=1e-5, atol=1e-5)
    attention = expected.cross_attentions[0].numpy()[:, [1, 0]]
    np.testing.assert_allclose(attention, found.attention, atol=1e-6)


@pytest.mark.parametrize("frames", [2, 200, 700, 3000])
def test_a_window_of_any_length_has_a_position_for_every_two_frames(network, frames):
    """The encoder takes what is there, without padding."""
    encoded = network.encode(features(frames))
    found = network.begin(encoded).forward(np.array([TEXT]), attend=True)

    assert frames // 2 == encoded.positions == found.attention.shape[-1]
    np.testing.assert_allclose(1.0, found.attention.sum(-1), rtol=1e-5)


@pytest.mark.parametrize("frames", [0, 3, 3002])
def test_a_window_that_is_none_is_refused(network, frames):
    """An odd number of frames, none, or too many."""
    with pytest.raises(ValueError, match="even number of frames up to 3000"):
        network.encode(features(frames))


@pytest.mark.parametrize("pieces", [(1,) * 9, (4, 1, 1, 3), (8, 1)], ids=str)
def test_a_text_in_pieces_gives_what_it_gives_at_once(network, pieces):
    """The caches lose nothing: logits and attention equal a full recomputation."""
    encoded = network.encode(features(400))
    whole = network.begin(encoded).forward(np.array([TEXT]), keep=range(len(TEXT)), attend=True)
    run, logits, attention, first = network.begin(encoded), [], [], 0
    for length in pieces:
        piece = np.array([TEXT[first : first + length]])
        found = run.forward(piece, keep=range(length), attend=True)
        logits.append(found.logits)
        attention.append(found.attention)
        first += length

    np.testing.assert_allclose(whole.logits, np.concatenate(logits, axis=1), rtol=1e-5, atol=5e-5)
    np.testing.assert_allclose(whole.attention, np.concatenate(attention, axis=2), atol=1e-5)


def test_whether_anyone_looks_changes_nothing(network):
    """Attention comes beside the pass, not instead of it."""
    encoded = network.encode(features(400))
    looked, unseen = (
        network.begin(encoded).forward(np.array([TEXT]), attend=attend) for attend in (True, False)
    )

    np.testing.assert_array_equal(looked.logits, unseen.logits)
    assert unseen.attention is None


def test_rows_go_on_from_the_rows_they_are_told(network):
    """Reordered, repeated and dropped rows are those of texts run on their own."""
    encoded = network.encode(features(400))
    run = network.begin(encoded)
    run.forward(np.array([TEXT[:4]]))
    run.reorder([0, 0, 0])
    run.forward(np.array([[1732], [4018], [732]]))
    run.reorder([2, 0])
    found = run.forward(np.array([[1045], [3124]])).logits[:, 0]
    alone = [
        network.begin(encoded).forward(np.array([[*TEXT[:4], *text]])).logits[0, 0]
        for text in ((732, 1045), (1732, 3124))
    ]

    np.testing.assert_allclose(np.stack(alone), found, rtol=1e-5, atol=5e-5)


def test_more_tokens_than_there_is_room_for_are_refused_and_change_nothing(network):
    """A run that was asked too much goes on as if it had not been."""
    run = network.begin(network.encode(features(200)))
    before = run.forward(np.array([TEXT[:4]])).logits
    with pytest.raises(ValueError, match="at most 448 tokens in a row, got 449"):
        run.forward(np.zeros((1, 445), dtype=np.int64))
    other = network.begin(network.encode(features(200)))

    np.testing.assert_array_equal(before, other.forward(np.array([TEXT[:4]])).logits)
    np.testing.assert_array_equal(
        run.forward(np.array([[1732]])).logits, other.forward(np.array([[1732]])).logits
    )


def test_a_pass_changes_nothing_on_the_model(whisper, network):
    """Parameters, hooks and modules are what they were."""

    def state():
        modules = list(whisper.modules())
        hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in modules)
        sums = {name: float(value.double().sum()) for name, value in whisper.state_dict().items()}
        return [id(module) for module in modules], hooks, sums, whisper.training

    before = state()
    network.begin(network.encode(features(200))).forward(np.array([TEXT]), attend=True)

    assert before == state()
    assert not any(value.requires_grad for value in whisper.parameters())


def test_passes_in_threads_equal_passes_alone(network):
    """What a run keeps is its own."""
    rules = Rules(
        sot=50258,
        eot=50257,
        no_speech=50362,
        timestamp_begin=50364,
        suppressed=np.arange(50258, 50364),
        begin_suppressed=np.array([], dtype=np.int64),
        has_timestamps=True,
    )

    def say(seed):
        encoded = network.encode(features(300, seed))
        return decode(
            network, encoded, TEXT[:3], rules=rules, budget=12, beam_size=1 + seed % 3, attend=True
        )

    alone = [say(seed) for seed in range(4)]
    together = [None] * 4

    def listen(seed):
        together[seed] = say(seed)

    threads = [threading.Thread(target=listen, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for one, other in zip(alone, together, strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_array_equal(one.attention, other.attention)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_close(whisper, network, dtype):
    """Other arithmetic says the same within its precision, and still returns float32."""
    half = load_whisper(DIGITS, device=torch.device("cpu"), dtype=getattr(torch, dtype))
    coarse = TorchNetwork(half, alignment_heads=HEADS)
    fine = network.begin(network.encode(features(300))).forward(np.array([TEXT]), attend=True)
    found = coarse.begin(coarse.encode(features(300))).forward(np.array([TEXT]), attend=True)

    assert getattr(torch, dtype) == coarse.dtype
    assert np.float32 == found.logits.dtype == found.attention.dtype
    assert np.abs(found.logits - fine.logits).max() < 0.05 * np.abs(fine.logits).max()
