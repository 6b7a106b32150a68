"""
Stop transcriptions at random moments, and compare the files with what was committed by then.

    python tools/stop_transcriptions.py --minutes 10 --count 20
    python tools/stop_transcriptions.py --minutes 10 --count 20 --backend scripted

A backend around faster-whisper and its digits checkpoint, or around the scripted one of the suite,
which computes little, records every committed token when it leaves the processor.  Each run reads
the recording from a pipe; a signal is sent when a random number of its bytes has been taken, so
nothing depends on the clock.  The file must be valid and contain exactly the text that was recorded
in that run, with which the text of a run that was not stopped must begin.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

from wlk_conformance.testing import CodedToken, encode, load_clip
from wlk_core import SAMPLE_RATE

MAX_ID = 10  # of coded tokens: the digits of the scripted backend

FORMATS = ("text", "json", "jsonl", "srt", "vtt")
BACKENDS = ("faster-whisper", "scripted")
PLUGIN = """
import json, os
from wlk_core import load_backend
from wlk_core.plugins import BackendSpec, hookimpl

@hookimpl
def wlk_backends():
    return [BackendSpec(name="recorded", api=1, summary="records", load=f"{__name__}:load")]

class Around:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, name): return getattr(self.inner, name)
    def __enter__(self): return self
    def __exit__(self, *_): self.inner.close()

class Processor(Around):
    def process_iter(self): return record(self.inner.process_iter())
    def start_silence(self): return record(self.inner.start_silence())
    def finish(self): return record(self.inner.finish())

class Backend(Around):
    def create_processor(self, **options):
        return Processor(self.inner.create_processor(**options))

def record(emission):
    with open(os.environ["RECORDED_TOKENS"], "a") as log:
        log.writelines(json.dumps(token.text) + "\\n" for token in emission.committed)
    return emission

def load(spec, model):
    return Backend(load_backend(os.environ["RECORDED_BACKEND"], "digits"))
"""


def main() -> int:
    """Run every format and print a line for each; return 1 if any file was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the recording")
    parser.add_argument("--count", type=int, default=20, help="stops in each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signal", default="SIGTERM", help="SIGTERM, SIGHUP or SIGINT")
    parser.add_argument("--backend", default=BACKENDS[0], choices=BACKENDS)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    arguments = parser.parse_args()
    random_source = random.Random(arguments.seed)  # noqa: S311 -- moments, no secrets
    number = signal.Signals[arguments.signal]
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), arguments.backend, arguments.minutes)
        began = time.perf_counter()
        _, reference, _ = bench.run("text", None, number)
        seconds = time.perf_counter() - began
        print(f"not stopped: {len(reference)} letters in {seconds:.0f} s, seed {arguments.seed}")
        for style in arguments.formats:
            counts = []
            for _ in range(arguments.count):
                share = random_source.uniform(0.02, 0.98)
                status, committed, text = bench.run(style, share, number)
                problem = find_problem(
                    style, status, committed, text, reference=reference, number=number
                )
                counts.append(len(committed))
                if problem:
                    failures += 1
                    print(f"{style} at {share:.4f}: {problem}")
            print(
                f"{style}: {arguments.count} stops by {number.name}, after {min(counts)} to "
                f"{max(counts)} letters ({sum(counts)} in all), {failures} files wrong so far",
                flush=True,
            )
    return 1 if failures else 0


class Bench:
    """A recording, the recording backend, and runs of the command with both."""

    def __init__(self, folder: Path, backend: str, minutes: float) -> None:
        self._folder, self._backend = folder, backend
        (folder / "recorded_plugin.py").write_text(PLUGIN, encoding="utf-8")
        info = folder / "wlk_recorded-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: wlk-recorded\nVersion: 0.1.0\n"
        )
        (info / "entry_points.txt").write_text("[wlk.plugins]\nrecorded = recorded_plugin\n")
        samples = int(minutes * 60 * SAMPLE_RATE)
        if backend == "scripted":
            tokens = [CodedToken(1 + i % MAX_ID, 1 + 6 * i) for i in range(int(minutes * 125))]
            audio = encode(tokens)
        else:
            clip = load_clip("demo").audio
            audio = np.tile(clip, samples // len(clip) + 1)
        self._data = wav(audio[:samples])

    def run(self, style: str, share: float | None, number: signal.Signals) -> tuple[int, str, str]:
        """Return status, recorded words and the file of a run; None is not stopped."""
        tokens, output = self._folder / "tokens.jsonl", self._folder / "output"
        tokens.write_text("")
        output.unlink(missing_ok=True)
        path = os.pathsep.join([str(self._folder), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "wlk_core", "transcribe", "-", "--backend", "recorded"),
                *("--format", style, "--output", str(output)),
                *(["--no-vad"] if self._backend == "scripted" else []),
            ],
            env={
                **os.environ,
                "PYTHONPATH": path,
                "RECORDED_TOKENS": str(tokens),
                "RECORDED_BACKEND": self._backend,
            },
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None  # noqa: S101 -- narrows the type: it is a pipe
        taken = len(self._data) if share is None else int(len(self._data) * share)
        process.stdin.write(self._data[:taken])
        process.stdin.flush()
        if share is not None:
            process.send_signal(number)
        else:
            process.stdin.close()
        status = process.wait()
        if not process.stdin.closed:
            process.stdin.close()
        text = "".join(json.loads(line) for line in tokens.read_text().splitlines())
        return status, letters(text), output.read_text() if output.exists() else ""


def wav(audio: np.ndarray) -> bytes:
    """Return float32[n] as a file that holds every sample bit for bit."""
    data = audio.astype("<f4").tobytes()
    head = b"fmt " + struct.pack("<IHHIIHH", 16, 3, 1, SAMPLE_RATE, 4 * SAMPLE_RATE, 4, 32)
    head += b"data" + struct.pack("<I", len(data))
    return b"RIFF" + struct.pack("<I", 4 + len(head) + len(data)) + b"WAVE" + head + data


def find_problem(
    style: str,
    status: int,
    committed: str,
    text: str,
    *,
    reference: str,
    number: signal.Signals,
) -> str | None:
    """Return what is wrong with a stopped run, None if nothing is."""
    if status not in {128 + number, -number}:
        return f"status {status}"
    if committed != reference[: len(committed)]:
        return "the text differs from that of the run that was not stopped"
    try:
        found = text_of(style, text)
    except (ValueError, KeyError, IndexError) as error:
        return f"no valid {style}: {type(error).__name__}: {error}"
    if found != committed:
        return f"{len(committed)} letters were committed, the file has {len(found)}"
    return None


def letters(text: str) -> str:
    """Return *text* without its spaces, which formats place differently."""
    return "".join(text.split())


def text_of(style: str, text: str) -> str:
    """Return the text in a file of a format; ValueError and KeyError where it is not valid."""
    if style == "text" or not text:
        return letters(text)
    if style == "json":
        result = json.loads(text)
        result["incomplete"]  # a complete one would be wrong
        return letters(result["text"])
    if style == "jsonl":
        events = [json.loads(line) for line in text.splitlines()]
        if not text.endswith("\n") or any(event["event"] == "end" for event in events):
            raise ValueError("the last line is cut, or the end of a whole recording")
        commits = [event["tokens"] for event in events if event["event"] == "commit"]
        return letters("".join(token["text"] for tokens in commits for token in tokens))
    if style == "vtt" and not text.startswith("WEBVTT\n\n"):
        raise ValueError("no header")
    cues = text.removeprefix("WEBVTT\n\n").removesuffix("\n\n").split("\n\n")
    lines = [cue.split("\n") for cue in cues if cue]
    for position, cue in enumerate(lines, 1):
        if " --> " not in cue[-2] or (style == "srt" and cue[0] != str(position)):
            raise ValueError(f"cue {position} is {cue}")
    return letters("".join(cue[-1] for cue in lines))


if __name__ == "__main__":
    sys.exit(main())
