"""The transcripts of the test endpoint: digits, really recognised, as verbose_json."""

from __future__ import annotations

import hashlib
import threading

from wlk_core import load_backend

__all__ = ["DigitsRecognizer"]

SEGMENT_WORDS = 4  # in the segments of a response
MAX_RESPONSES = 8  # more would count as memory of the streams in this process


class DigitsRecognizer:
    """The digits checkpoint, with a stream of its own for each request."""

    def __init__(self):
        self._backend = load_backend("faster-whisper", "digits", device="cpu", cpu_threads=1)
        self._responses = {}
        self._lock = threading.Lock()

    def transcribe(self, request):
        """Return a verbose_json response, the same one for the same request."""
        prompt, language = (request.fields.get(name, [None])[0] for name in ("prompt", "language"))
        key = hashlib.sha256(request.audio.tobytes()).hexdigest(), prompt, language, request.path
        with self._lock:
            response = self._responses.get(key)
        if response is None:
            response = self._run(request, prompt, language or "english")
            with self._lock:
                self._responses[key] = response
                while len(self._responses) > MAX_RESPONSES:
                    del self._responses[next(iter(self._responses))]
        return response

    def _run(self, request, prompt, language):
        # The language is only repeated, because the checkpoint recognises English alone.
        stream = self._backend.create_processor(
            prompt=prompt, tick_seconds=10.0, buffer_seconds=25.0
        )
        stream.insert_audio_chunk(request.audio)
        tokens = stream.finish().committed
        stream.close()
        is_translation = request.path.endswith("translations")
        segments = [
            _segment(number, tokens[first : first + SEGMENT_WORDS])
            for number, first in enumerate(range(0, len(tokens), SEGMENT_WORDS))
        ]
        response = {
            "task": "translate" if is_translation else "transcribe",
            "language": language,
            "duration": request.seconds,
            "text": "".join(token.text for token in tokens).strip(),
            "segments": segments,
        }
        words = [
            {"word": token.text.strip(), "start": token.start, "end": token.end} for token in tokens
        ]
        return response if is_translation else {**response, "words": words}

    def close(self):
        """Release the model."""
        self._backend.close()


def _segment(number, tokens):
    return {
        "id": number,
        "seek": 0,
        "start": tokens[0].start,
        "end": tokens[-1].end,
        "text": " " + "".join(token.text for token in tokens).strip(),
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": -0.2,
        "compression_ratio": 1.0,
        "no_speech_prob": 0.01,
    }
