"""A server whose sessions are vLLM's own; the engine is a stub that decodes step by step."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
import queue
import socket
import threading
from types import SimpleNamespace

from bursts import LEFT_PAD_STEPS, PROMPT_STEPS, STEP, BurstModel
import numpy as np
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from unmodified import connection_class, steps_of
import uvicorn

MODEL = "voxtral"
_CONNECTION = connection_class()
_STEPS_OF = steps_of()


class StubEngine:
    """
    What `engine_client` is to vLLM's connection.

    Attributes:
        new_model: returns what decodes one generation.
        max_model_len: as vLLM's option.
        fault: raised by the next generation.
        aborted: a queue of the requests that were aborted.
        generations: how many began.

    """

    def __init__(self, new_model=BurstModel, *, max_model_len=45_000):
        self.new_model = new_model
        self.max_model_len = max_model_len
        self.fault = None
        self.aborted = queue.Queue()
        self.generations = 0

    async def generate(self, *, prompt, sampling_params, request_id):
        """Yield an output for each step, as vLLM 0.33 does."""
        del sampling_params, request_id
        self.generations += 1
        model, audio, step = self.new_model(), np.empty(0, np.float32), 0
        async for item in prompt:
            if self.fault is not None:
                fault, self.fault = self.fault, None
                raise fault
            frame, _ = item["multi_modal_data"]["audio"]
            # The first frame begins with the silence; of later ones the last step is new.
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
        """Note the request."""
        self.aborted.put(request_id)


class _Serving:
    model_cls = SimpleNamespace(realtime_max_tokens=1)

    def __init__(self, engine):
        self.engine_client = engine

    def _is_model_supported(self, model):
        return model == MODEL

    def create_error_response(self, message, **_fields):
        return SimpleNamespace(error=SimpleNamespace(message=message))

    def transcribe_realtime(self, audio_stream, input_stream):
        config = SimpleNamespace(max_model_len=self.engine_client.max_model_len)
        return _STEPS_OF(None, audio_stream, input_stream, config)


def application(engine):
    """Return the routes of vLLM that the client uses."""

    async def models(_request):
        entry = {"id": MODEL, "owned_by": "vllm", "max_model_len": engine.max_model_len}
        return JSONResponse({"object": "list", "data": [entry]})

    async def session(web_socket):
        await _CONNECTION(web_socket, _Serving(engine)).handle_connection()

    return Starlette(routes=[Route("/v1/models", models), WebSocketRoute("/v1/realtime", session)])


@contextmanager
def running(engine):
    """Yield the address of a server with *engine*."""
    config = uvicorn.Config(application(engine), log_level="error", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"ws://127.0.0.1:{listener.getsockname()[1]}/v1/realtime"
        finally:
            server.should_exit = True
            thread.join()
