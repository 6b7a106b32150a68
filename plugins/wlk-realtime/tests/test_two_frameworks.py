"""A wlk-serve in front of torch and MLX in environments of their own; one of them crashes."""

from __future__ import annotations

from contextlib import contextmanager
import os
from pathlib import Path
import signal
import subprocess
import sys
import threading

import pytest

from wlk_conformance.testing import connected_digits, partition
from wlk_core import load_backend
from wlk_core.errors import BackendError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("WLK_FULL") != "1", reason="nox -s frameworks"),
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads processes of Linux"),
]
# nox -s frameworks makes an environment for each of them.
PYTHONS = [os.environ.get(f"WLK_{name}_PYTHON", sys.executable) for name in ("TORCH", "MLX")]
PATIENCE = {"timeout_seconds": 300}


@contextmanager
def front():
    """Yield a server with two children: its process, its address, its messages so far."""
    command = [sys.executable, "-m", "wlk_serve", "--backend", "realtime", "--model", "digits"]
    command += ["--option", f"python={','.join(PYTHONS)}", "--option", "timeout_seconds=300"]
    command += ["--option", "backend=whisper,mlx-whisper", "--port", "0", "--drain-seconds", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        assert "ready on" in line, line
        messages = []
        reader = threading.Thread(target=messages.extend, args=(process.stderr,), daemon=True)
        reader.start()
        try:
            port = line.split()[3].rpartition(":")[2]
            yield process, f"ws://127.0.0.1:{port}/v1/realtime", messages
        finally:
            process.kill()
            process.wait()
            reader.join()


def children(process):
    """Return the servers that a process has started, by what they run."""
    numbers = [
        int(number)
        for path in Path(f"/proc/{process.pid}/task").glob("*/children")
        for number in path.read_text().split()
    ]
    commands = {number: Path(f"/proc/{number}/cmdline").read_text() for number in numbers}
    names = ("mlx-whisper", "whisper")
    return {
        next(name for name in names if f"\0{name}\0" in command): number
        for number, command in commands.items()
        if "wlk_serve" in command
    }


def retried(call, failures):
    """Return the texts that *call* commits, made again while it fails; note why it did."""
    while True:
        try:
            return [token.text for token in call().committed]
        except BackendError as error:
            assert error.retryable, error
            failures.append(str(error))


def feed(stream, audio, words, failures):
    """Let *stream* decode *audio* in chunks of a second."""
    for chunk in partition(audio, 1.0):
        stream.insert_audio_chunk(chunk)
        words += retried(stream.process_iter, failures)


def test_sessions_are_divided_among_torch_and_mlx_and_a_crash_costs_no_word():
    """Those of the process that is killed go on at the other one, and it comes back."""
    clips = [connected_digits(12, seed=seed) for seed in range(4)]
    words, failures = [[] for _ in clips], []
    with front() as (process, url, messages), load_backend("realtime", url, **PATIENCE) as backend:
        streams = [backend.create_processor() for _ in clips]
        halves = [len(clip.audio) // 2 for clip in clips]
        for stream, clip, half, found in zip(streams, clips, halves, words, strict=True):
            feed(stream, clip.audio[:half], found, failures)
        before = children(process)
        os.kill(before["mlx-whisper"], signal.SIGABRT)
        for stream, clip, half, found in zip(streams, clips, halves, words, strict=True):
            feed(stream, clip.audio[half:], found, failures)
            found.extend(retried(stream.finish, failures))
            stream.close()
        again = backend.transcribe(clips[0].audio, vad=False).text
        after = children(process)
    crashes = [line for line in messages if line.rstrip().endswith("is started again")]
    repeated = [line for line in messages if "call again" in line]  # by the sessions of the server
    print("calls made again:", len(failures), "here,", len(repeated), "in the server")  # noqa: T201 -- the figures of the proof
    print(*failures, *repeated, *crashes, sep="\n")  # noqa: T201 -- see above

    assert {"whisper", "mlx-whisper"} == set(before) == set(after)
    assert before["whisper"] == after["whisper"]
    assert before["mlx-whisper"] != after["mlx-whisper"]
    assert len(failures) <= len(clips) // 2  # one for each of its streams, or none
    assert 1 == len(crashes)
    expected = [clip.text.split() for clip in clips]
    assert expected == ["".join(found).lower().split() for found in words]
    assert expected[0] == again.lower().split()
