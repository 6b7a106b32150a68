"""The latency of a tick of Qwen3-ASR at the published sizes, with random weights."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_qwen3_simul.torch.network import TorchNetwork

__all__ = ["print_latencies"]

BUFFERS = (2, 4, 6, 8, 10, 12, 16, 20, 24, 28)  # seconds
TEXT = 40  # ids after the audio: the turns of the chat, committed words and a draft
STEPS = 3  # tokens that are new
REPEATS = 5
BEFORE = list(range(9))

# Qwen/Qwen3-ASR-0.6B and -1.7B, config.json.
_TEXT = {"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
         "head_dim": 128, "vocab_size": 151936}  # fmt: skip
SIZES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "0.6b": (
        {"encoder_layers": 18, "encoder_attention_heads": 14, "encoder_ffn_dim": 3584,
         "d_model": 896, "output_dim": 1024},
        {"hidden_size": 1024, "intermediate_size": 3072},
    ),
    "1.7b": (
        {"encoder_layers": 24, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
         "d_model": 1024, "output_dim": 2048},
        {"hidden_size": 2048, "intermediate_size": 6144},
    ),
}  # fmt: skip


def print_latencies(device: str) -> None:
    """Print milliseconds a tick by size and buffer length, with a decoder cache and without."""
    import torch  # noqa: PLC0415 -- brings torch

    kind = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    for size in SIZES:
        network = _network(size, kind)
        print(f"{size}, random weights, {network.dtype} on {kind}: milliseconds a tick of 1 s")
        print("buffer  cached  uncached")
        for seconds in BUFFERS:
            cached, uncached = (
                _time(network, seconds, is_cached=is_cached) for is_cached in (True, False)
            )
            print(f"{seconds:4d} s {1000 * cached:8.1f} {1000 * uncached:9.1f}", flush=True)
        del network


def _network(size: str, device: str) -> TorchNetwork:
    import torch  # noqa: PLC0415 -- brings torch
    from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration  # noqa: PLC0415

    from wlk_qwen3_simul.torch.attention import ATTENTION_NAME, register  # noqa: PLC0415
    from wlk_qwen3_simul.torch.network import TorchNetwork  # noqa: PLC0415

    audio, text = SIZES[size]
    config = Qwen3ASRConfig(
        audio_config={**audio, "model_type": "qwen3_asr_encoder"},
        text_config={**_TEXT, **text, "model_type": "qwen3", "tie_word_embeddings": True},
    )
    register()
    with torch.device(device):
        model = Qwen3ASRForConditionalGeneration(config)
    model = model.to(torch.float32 if device == "cpu" else torch.bfloat16).requires_grad_(False)
    model.set_attn_implementation({"audio_config": "sdpa", "text_config": ATTENTION_NAME})
    model.train(mode=False)
    return TorchNetwork(model, alignment_heads=[(layer, 3) for layer in range(8, 28)])


def _time(network: TorchNetwork, seconds: int, *, is_cached: bool) -> float:
    """Return how long the tick at *seconds* takes, with the cache of the tick before or without."""
    return median(_tick(network, seconds, is_cached=is_cached) for _ in range(REPEATS))


def _tick(network: TorchNetwork, seconds: int, *, is_cached: bool) -> float:
    from wlk_qwen3_simul.engine.encoder import IncrementalEncoder  # noqa: PLC0415

    audio = np.random.default_rng(0).normal(size=seconds * SAMPLE_RATE).astype(np.float32) * 0.1
    encoder, kv_cache = IncrementalEncoder(network), network.new_kv_cache()
    closed = 0
    if is_cached:
        encoded = encoder.encode(audio[: (seconds - 1) * SAMPLE_RATE], first_sample=0)
        _decode(network, kv_cache, [BEFORE, *encoded.windows], encoded.tokens)
        kv_cache.truncate(len(BEFORE) + sum(window.tokens for window in encoded.closed))
        closed = len(encoded.closed)
    _synchronize()
    start = perf_counter()
    encoded = encoder.encode(audio, first_sample=0)
    parts: list[Any] = [*([] if is_cached else [BEFORE]), *encoded.windows[closed:]]
    _decode(network, kv_cache, parts, encoded.tokens)
    _synchronize()
    return perf_counter() - start


def _decode(network: TorchNetwork, kv_cache: Any, parts: list[Any], tokens: int) -> None:
    span = (len(BEFORE), len(BEFORE) + tokens)
    network.forward(kv_cache, [*parts, list(range(TEXT))], rows=TEXT // 4, audio=span)
    for token in range(STEPS):
        network.forward(kv_cache, [[token]], rows=1, audio=span)


def _synchronize() -> None:
    import torch  # noqa: PLC0415 -- brings torch

    wait: Callable[[], None] = torch.cuda.synchronize if torch.cuda.is_available() else int
    wait()
