"""SIGTERM while sessions speak in mid-sentence and recordings arrive."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import http.client
import io
import json
import threading
import time
from typing import TYPE_CHECKING
import wave

from churn import Crowd, journals
from scripts import Script
from server import letters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from journal import Journal
    from server import ServerProcess

__all__ = ["terminate_in_mid_sentence"]

_RESTART = 1012
_REFUSED = "HTTP 503"
_UPLOADS = 3  # one that is complete, one that still arrives, one whose answer is streamed
_RECORDINGS = 10_000  # seeds
_PART_SECONDS = 0.3  # between the parts of the recording that still arrives


def terminate_in_mid_sentence(
    server: ServerProcess, folder: Path, *, sessions: int, seed: int
) -> list[str]:
    """Return what was lost; print what was not."""
    crowd = Crowd(server, folder, sessions, seed, is_steady=True)
    crowd.wait_for_words()
    with_recordings = server.backend != "scripted"
    problems = []
    with ThreadPoolExecutor(_UPLOADS) as pool:
        is_sent = threading.Semaphore(0)
        styles = range(_UPLOADS) if with_recordings else ()
        uploads = [pool.submit(_upload, server, style, is_sent) for style in styles]
        for _ in uploads:
            is_sent.acquire()
        server.terminate()
        began = time.monotonic()
        answers = [upload.result() for upload in uploads]
        status = server.wait()
    print(f"status {status} after {time.monotonic() - began:.1f} s")
    crowd.stop()
    texts = set(server.committed())
    words = 0
    for journal in journals(folder):
        if not journal.deltas and _REFUSED in journal.notes.get("failed", ""):
            continue  # a session that was to begin after the signal
        received = letters(journal.deltas)
        words += sum(1 for _ in journal.deltas.split())
        name = journal.path.name
        if journal.notes.get("closed") != _RESTART and "finished" not in journal.notes:
            problems.append(f"{name}: {journal.notes}")
        if received not in texts | {""}:
            problems.append(f"{name}: received {received}, which no stream committed exactly")
        problems += [f"{name}: {problem}" for problem in _missing(journal, received)]
    print(f"{len(journals(folder))} sessions, {words} words received, {len(problems)} problems")
    for style, (code, text) in enumerate(answers):
        print(f"recording {style}: {code}, {len(text.split())} words")
        spoken = " ".join(Script(_RECORDINGS + style, server.backend).words)
        if code != http.HTTPStatus.OK or letters(text) != letters(spoken):
            problems.append(f"recording {style}: {code}, spoken: {spoken}, received: {text[-300:]}")
    return problems


def _missing(journal: Journal, received: str) -> Iterator[str]:
    """Yield what is missing of the words whose audio the server has acknowledged."""
    script = Script(journal.seed, journal.backend)
    count = sum(1 for pause in script.pauses if pause <= journal.acknowledged)
    spoken = "".join(script.words[:count])
    if journal.backend == "scripted" and not received.startswith(spoken):
        yield f"acknowledged: {spoken}, received: {received}"


def _upload(server: ServerProcess, style: int, is_sent: threading.Semaphore) -> tuple[int, str]:
    """Return status and text of the answer to a recording."""
    fields = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ndigits\r\n'
    if style == 2:  # noqa: PLR2004 -- the last one
        fields += b'--x\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
    form = fields + b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    form += _recording(style) + b"\r\n--x--\r\n"

    def parts() -> Iterator[bytes]:
        count = 10 if style == 1 else 1
        size = -(-len(form) // count)
        for number in range(count):
            if number == count // 2:
                is_sent.release()
            yield form[number * size : (number + 1) * size]
            if count > 1:
                time.sleep(_PART_SECONDS)

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {"content-type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/v1/audio/transcriptions", parts(), headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    if style == 2 and answer.status == http.HTTPStatus.OK:  # noqa: PLR2004 -- the last one
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
        return answer.status, str(events[-1].get("text", events[-1]))
    return answer.status, json.loads(body).get("text", body)


def _recording(seed: int) -> bytes:
    script = Script(_RECORDINGS + seed, "faster-whisper")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes(script.data)
    return file.getvalue()
