"""
A server whose sessions are the installed vLLM's own; the engine is a stub that decodes by steps.

vLLM imports its compiled kernels and torch's CUDA build almost everywhere.  So the packages on the
way to the connection are stubs that only have a path.  The model's module imports half of vLLM, so
the class and the function that cut audio are compiled from its file by themselves.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
from contextlib import contextmanager
import importlib
import importlib.util
import logging
from pathlib import Path
import queue
import socket
import sys
import threading
from types import ModuleType, SimpleNamespace

from bursts import (
    DELAY_STEPS,
    LEFT_PAD_STEPS,
    LOOK_AHEAD_SAMPLES,
    PROMPT_STEPS,
    RIGHT_PAD_STEPS,
    STEP,
    BurstModel,
)
import numpy as np
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
import uvicorn

MODEL = "voxtral"
MAX_MODEL_LEN = 45_000

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
    """Return vLLM's function that turns Voxtral's audio and tokens into the inputs of steps."""
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


class StubEngine:
    """
    A stand-in for the `engine_client` of vLLM's connection.

    Attributes:
        fault: an exception that the next generation raises.
        aborted: a queue of the aborted requests.

    """

    def __init__(self):
        self.fault = None
        self.aborted = queue.Queue()

    async def generate(self, *, prompt, sampling_params, request_id):
        """Yield an output for each step, as vLLM 0.33 does."""
        del sampling_params, request_id
        model, audio, step = BurstModel(), np.empty(0, np.float32), 0
        async for item in prompt:
            if self.fault is not None:
                fault, self.fault = self.fault, None
                raise fault
            frame, _ = item["multi_modal_data"]["audio"]
            # The first frame begins with silence; of a later frame, only the last step is new.
            audio = np.concatenate(
                (audio, frame[-STEP:] if step else frame[LEFT_PAD_STEPS * STEP :])
            )
            text = await asyncio.to_thread(model.text, step, audio)
            step += 1
            yield SimpleNamespace(
                outputs=[SimpleNamespace(text=text, token_ids=[step])],
                prompt_token_ids=[0] * PROMPT_STEPS,
            )

    async def abort(self, request_id):
        """Record the request."""
        self.aborted.put(request_id)


class _Serving:
    model_cls = SimpleNamespace(realtime_max_tokens=1)

    def __init__(self, engine, feed):
        self.engine_client = engine
        self._feed = feed

    def _is_model_supported(self, model):
        return model == MODEL

    def create_error_response(self, message, **_fields):
        return SimpleNamespace(error=SimpleNamespace(message=message))

    def transcribe_realtime(self, audio_stream, input_stream):
        config = SimpleNamespace(max_model_len=MAX_MODEL_LEN)
        return self._feed(None, audio_stream, input_stream, config)


@contextmanager
def running(engine):
    """Yield the address of a server with *engine*."""
    connection, serving = connection_class(), _Serving(engine, steps_of())

    async def models(_request):
        entry = {"id": MODEL, "owned_by": "vllm", "max_model_len": MAX_MODEL_LEN}
        return JSONResponse({"object": "list", "data": [entry]})

    async def session(web_socket):
        await connection(web_socket, serving).handle_connection()

    routes = [Route("/v1/models", models), WebSocketRoute("/v1/realtime", session)]
    config = uvicorn.Config(
        Starlette(routes=routes), log_level="error", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/realtime"
        finally:
            server.should_exit = True
            thread.join()
