"""How long a tick of Qwen3-ASR takes at the published sizes, whatever its weights say."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_qwen3_simul.torch_network import TorchNetwork

__all__ = ["print_latencies"]

RATE = 16_000
BUFFERS = (2, 4, 6, 8, 10, 12, 16, 20, 24, 28)  # seconds
TEXT = 40  # ids behind the audio: what frames it, committed words and a draft
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
    """Print milliseconds a tick, with kept state and without, for each size and buffer length."""
    import torch  # noqa: PLC0415 -- brings torch

    place = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    for size in SIZES:
        network = _network(size, place)
        print(f"{size}, random weights, {network.dtype} on {place}: milliseconds a tick of 1 s")
        print("buffer   kept   again")
        for seconds in BUFFERS:
            kept, again = (_time(network, seconds, keeps=keeps) for keeps in (True, False))
            print(f"{seconds:4d} s {1000 * kept:7.1f} {1000 * again:7.1f}", flush=True)
        del network


def _network(size: str, device: str) -> TorchNetwork:
    import torch  # noqa: PLC0415 -- brings torch
    from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration  # noqa: PLC0415

    from wlk_qwen3_simul.torch_attention import NAME, register  # noqa: PLC0415
    from wlk_qwen3_simul.torch_network import TorchNetwork  # noqa: PLC0415

    audio, text = SIZES[size]
    config = Qwen3ASRConfig(
        audio_config={**audio, "model_type": "qwen3_asr_encoder"},
        text_config={**_TEXT, **text, "model_type": "qwen3", "tie_word_embeddings": True},
    )
    register()
    with torch.device(device):
        model = Qwen3ASRForConditionalGeneration(config)
    model = model.to(torch.float32 if device == "cpu" else torch.bfloat16).requires_grad_(False)
    model.set_attn_implementation({"audio_config": "sdpa", "text_config": NAME})
    model.train(mode=False)
    return TorchNetwork(model, alignment_heads=[(layer, 3) for layer in range(8, 28)])


def _time(network: TorchNetwork, seconds: int, *, keeps: bool) -> float:
    """Return how long the tick at *seconds* takes, behind what the one before it left or not."""
    return median(_tick(network, seconds, keeps=keeps) for _ in range(REPEATS))


def _tick(network: TorchNetwork, seconds: int, *, keeps: bool) -> float:
    from wlk_qwen3_simul.audio.encoding import IncrementalEncoder  # noqa: PLC0415

    audio = np.random.default_rng(0).normal(size=seconds * RATE).astype(np.float32) * 0.1
    encoder, memory = IncrementalEncoder(network), network.open()
    if keeps:
        heard = encoder.hear(audio[: (seconds - 1) * RATE], first_sample=0)
        _decode(network, memory, [BEFORE, *heard.windows], heard.tokens)
        memory.keep(len(BEFORE) + sum(one.tokens for one in heard.closed))
    held = len(heard.closed) if keeps else 0
    _settle()
    began = perf_counter()
    heard = encoder.hear(audio, first_sample=0)
    parts: list[Any] = [*([] if keeps else [BEFORE]), *heard.windows[held:]]
    _decode(network, memory, parts, heard.tokens)
    _settle()
    return perf_counter() - began


def _decode(network: TorchNetwork, memory: Any, parts: list[Any], tokens: int) -> None:
    span = (len(BEFORE), len(BEFORE) + tokens)
    network.extend(memory, [*parts, list(range(TEXT))], rows=TEXT // 4, audio=span)
    for number in range(STEPS):
        network.extend(memory, [[number]], rows=1, audio=span)


def _settle() -> None:
    import torch  # noqa: PLC0415 -- brings torch

    wait: Callable[[], None] = torch.cuda.synchronize if torch.cuda.is_available() else int
    wait()
