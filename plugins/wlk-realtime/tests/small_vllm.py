"""A small server that speaks vLLM 0.33's realtime protocol, including its faults."""

from __future__ import annotations

import base64
import json
import queue
import threading

from bursts import DELAY_STEPS, LOOK_AHEAD_SAMPLES, PROMPT_STEPS, RIGHT_PAD_STEPS, STEP, BurstModel
import numpy as np
from websockets.exceptions import ConnectionClosed

MODEL = "voxtral"


class SmallVllm:
    """
    The state shared by all sessions of a server, and how the server differs from vLLM 0.33.

    Attributes:
        new_model: makes the model that decodes one generation.
        max_model_len: tokens after which a generation ends without notice.
        merge: how many deltas are merged into one, as with --stream-interval.
        tokens: computes the reported number of tokens from the true one.
        received: the messages received from clients.

    """

    def __init__(self, new_model=BurstModel, *, max_model_len=45_000, merge=1, tokens=int):
        self.new_model = new_model
        self.max_model_len = max_model_len
        self.merge = merge
        self.tokens = tokens
        self.received = []
        self.dropped_samples = 0
        self.ignored_commits = 0

    def models(self):
        """Return the list of models."""
        entry = {"id": MODEL, "object": "model", "owned_by": "vllm"}
        return {"object": "list", "data": [{**entry, "max_model_len": self.max_model_len}]}

    def serve(self, connection):
        """Serve a session."""
        Session(self, connection).run()


class Session:
    """A session: a thread that receives, and another one for each generation."""

    def __init__(self, server, connection):
        self._server = server
        self._connection = connection
        self._audio = queue.Queue()
        self._generation = None
        self._is_validated = False

    def run(self):
        """Receive messages until the client disconnects."""
        self._send(type="session.created", id="sess-1", created=1)
        try:
            for text in self._connection:
                self._handle(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            self._audio.put(None)
            if self._generation is not None:
                self._generation.join()

    def _send(self, **fields):
        self._connection.send(json.dumps(fields))

    def _error(self, text, code):
        self._send(type="error", error=text, code=code)

    def _handle(self, message):
        kind = message["type"]
        self._server.received.append((kind, message.get("final", False)))
        if kind == "session.update":
            if message.get("model") is None:
                self._error("Missing required field: model", "invalid_event")
            elif message["model"] != MODEL:
                self._error(f"The model `{message['model']}` does not exist.", "model_not_found")
            else:
                self._is_validated = True
        elif kind == "input_audio_buffer.append":
            data = base64.b64decode(message["audio"])
            if len(data) % 2 or not data:
                self._error("Invalid audio data", "invalid_audio")
            else:
                self._audio.put(np.frombuffer(data, "<i2").astype(np.float32) / 32_768)
        elif kind != "input_audio_buffer.commit":
            self._error(f"Unknown event type: {kind}", "unknown_event")
        elif not self._is_validated:
            self._error("Model not validated.", "model_not_validated")
        elif message.get("final"):
            self._audio.put(None)
        elif self._generation is not None and self._generation.is_alive():
            self._server.ignored_commits += 1
        else:
            self._generation = threading.Thread(target=self._generate)
            self._generation.start()

    def _generate(self):
        try:
            texts = self._texts()
            text = "".join(texts)
            tokens = self._server.tokens(len(texts))
            usage = {"prompt_tokens": PROMPT_STEPS if texts else 0, "completion_tokens": tokens}
            while not self._audio.empty():  # audio after the end is dropped
                audio = self._audio.get()
                self._server.dropped_samples += 0 if audio is None else len(audio)
            self._send(type="transcription.done", text=text, usage=usage)
        except ConnectionClosed:
            pass

    def _texts(self):
        """Send the deltas of a generation; return the text of each step."""
        model, texts, waiting = self._server.new_model(), [], []
        audio, is_over = np.empty(0, np.float32), False
        while True:
            step = len(texts)
            needed = (step + DELAY_STEPS + 1) * STEP + LOOK_AHEAD_SAMPLES
            while len(audio) < needed and not is_over:
                piece = self._audio.get()
                is_over = piece is None
                piece = np.zeros(RIGHT_PAD_STEPS * STEP, np.float32) if is_over else piece
                audio = np.concatenate((audio, piece))
            if len(audio) < needed or PROMPT_STEPS + step >= self._server.max_model_len:
                break
            texts.append(model.text(step, audio))
            waiting.append(texts[-1])
            if len(waiting) == self._server.merge:
                self._send(type="transcription.delta", delta="".join(waiting))
                waiting = []
        if waiting:
            self._send(type="transcription.delta", delta="".join(waiting))
        return texts
