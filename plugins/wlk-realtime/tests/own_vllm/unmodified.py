"""
Parts of the installed vLLM, unmodified: its connection, and how it cuts audio into steps.

vLLM imports its compiled kernels and torch's CUDA build almost everywhere.  So the packages on the
way to the connection are stubs that only have a path.  The model's module imports half of vLLM, so
the class and the function that cut audio are compiled from its file by themselves.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import importlib
import importlib.util
import logging
from pathlib import Path
import sys
from types import ModuleType, SimpleNamespace

from bursts import (
    DELAY_STEPS,
    LEFT_PAD_STEPS,
    LOOK_AHEAD_SAMPLES,
    PROMPT_STEPS,
    RIGHT_PAD_STEPS,
    STEP,
)
import numpy as np

_REALTIME = "vllm.entrypoints.speech_to_text.realtime"
_BUFFER = "VoxtralRealtimeBuffer"
_MODEL = "VoxtralRealtimeGeneration"
_FEED = "buffer_realtime_audio"

# mistral_common's AudioConfig of Voxtral-Mini-4B-Realtime-2602
CONFIG = SimpleNamespace(
    sampling_rate=16_000,
    frame_rate=12.5,
    raw_audio_length_per_tok=STEP,
    streaming_look_ahead_ms=LOOK_AHEAD_SAMPLES / 16,
    streaming_look_back_ms=52.5,
)


class _Encoder:
    audio_config = CONFIG

    @staticmethod
    def encode_streaming_tokens():
        return [0] * (LEFT_PAD_STEPS + DELAY_STEPS)

    @staticmethod
    def get_padding_audio():
        return tuple(
            SimpleNamespace(audio_array=np.zeros(steps * STEP, np.float32))
            for steps in (LEFT_PAD_STEPS, RIGHT_PAD_STEPS)
        )


_TOKENIZER = SimpleNamespace(
    instruct=SimpleNamespace(
        start=lambda: [0] * (PROMPT_STEPS - LEFT_PAD_STEPS - DELAY_STEPS), audio_encoder=_Encoder()
    )
)


def connection_class():
    """Return vLLM's RealtimeConnection."""
    root = Path(importlib.util.find_spec("vllm").submodule_search_locations[0])
    for name in ("vllm.entrypoints", "vllm.entrypoints.speech_to_text", _REALTIME):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    serving = ModuleType(f"{_REALTIME}.serving")
    serving.OpenAIServingRealtime = object
    sampling = ModuleType("vllm.sampling_params")
    sampling.SamplingParams = SimpleNamespace(from_optional=lambda **options: options)
    sampling.RequestOutputKind = SimpleNamespace(DELTA="delta")
    sys.modules |= {module.__name__: module for module in (serving, sampling)}
    return importlib.import_module(f"{_REALTIME}.connection").RealtimeConnection


def steps_of():
    """Return vLLM's function from audio and tokens to the inputs of steps, for Voxtral."""
    root = Path(importlib.util.find_spec("vllm").submodule_search_locations[0])
    path = root / "model_executor/models/voxtral_realtime.py"
    classes = {
        node.name: node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    (feed,) = (node for node in classes[_MODEL].body if getattr(node, "name", "") == _FEED)
    feed.decorator_list = []  # it is a class method that does not use its class
    namespace = {
        "asyncio": asyncio,
        "math": importlib.import_module("math"),
        "np": np,
        "TokensPrompt": dict,
        "logger": logging.getLogger("vllm"),
        "cached_tokenizer_from_config": lambda _config: _TOKENIZER,
    }
    code = compile(
        ast.Module(body=[classes[_BUFFER], feed], type_ignores=[]),
        str(path),
        "exec",
        flags=__future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    exec(code, namespace)  # noqa: S102 -- the installed vLLM
    return namespace[_FEED]
