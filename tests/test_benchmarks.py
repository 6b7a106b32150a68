from __future__ import annotations

import importlib
import json
from pathlib import Path
import subprocess
import sys

import attrs
import numpy as np
import pytest

from wlk_bench.recorder import record_stream
from wlk_conformance.testing import load_clip
from wlk_conformance.testing.digits import clip_path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def room(monkeypatch):
    """Return what imports a module of the benchmarks, which are scripts and no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def run(script, *arguments):
    """Run a benchmark to its end."""
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *arguments],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@attrs.define
class FakeProcessor:
    """An online processor in the manner of whisperlivekit: it emits a word for each chunk."""

    lengths: list[int] = attrs.field(factory=list)
    calls: int = 0

    def insert_audio_chunk(self, audio, audio_stream_end_time):
        """Take a chunk."""
        self.lengths.append(len(audio))

    def process_iter(self):
        """Return what it does for a chunk: two values."""
        self.calls += 1
        return [self.word(" one")], float(self.calls)

    def start_silence(self):
        """Return what a flush brings; there is no finish."""
        return [self.word(" two")], float(self.calls)

    @staticmethod
    def word(text):
        """Return a token of the package's shape."""
        return type("Token", (), {"start": 0.0, "end": 0.5, "text": text})()


@pytest.mark.slow
def test_a_table_of_installed_backends_is_printed():
    """A missing backend is a line, and work is compared with the loop of other projects."""
    done = run("whisper.py", "--minutes", "0.2")

    assert done.returncode == 0, done.stderr
    assert "faster-whisper local-agreement" in done.stdout
    assert "fewer positions (target 4x each)" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads processor times of Linux")
def test_what_the_wire_costs_is_printed_beside_the_same_backend_in_process():
    """Both have the same work and the same words."""
    done = run("realtime.py", "--seconds", "5")

    assert done.returncode == 0, done.stderr
    assert "added" in done.stdout
    assert "work equal; words equal" in done.stdout


@pytest.mark.slow
def test_what_a_tick_of_qwen3_costs_is_printed_beside_what_it_may_cost():
    """Frames, positions, forwards, and how often the host waits for a result."""
    pytest.importorskip("wlk_qwen3_simul", reason="pip install wlk-qwen3-simul")
    done = run("qwen3.py", "--minutes", "0.2", "--backend", "qwen3-simul")

    assert done.returncode == 0, done.stderr
    if "left out" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert "frames for each new one (target 5)" in done.stdout
    assert "host syncs a tick (target 5)" in done.stdout
    assert "for each word committed" in done.stdout


@pytest.mark.slow
def test_recordings_are_measured_live_and_whole_and_a_second_run_only_prints(tmp_path, room):
    """The rows of an interrupted or complete run are not measured again."""
    peer = room("peer_whisperlivekit")
    demo = load_clip("demo")
    words = [[word.text.strip(), word.start, word.end] for word in demo.words]
    line = {"audio": str(clip_path("demo")), "words": words}
    manifest, output = tmp_path / "demo.jsonl", tmp_path / "results"
    manifest.write_text(json.dumps(line) + "\n", encoding="utf-8")
    model = f"faster-whisper={peer.CTRANSLATE2}"
    contenders = ("--contender", "faster-whisper", "--contender", "whole-file,beam_size=1")
    arguments = (str(manifest), *contenders, "--model", model)
    first = run("real_speech.py", *arguments, "--output", str(output))
    second = run("real_speech.py", *arguments, "--output", str(output))
    again = run("real_speech.py", *arguments, "--output", str(output), "--peer", str(output))

    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    live, whole = first.stdout.splitlines()[2:]
    assert live.startswith("faster-whisper, 1 s")
    assert whole.startswith("whole-file,beam_size=1")
    assert 2 + 4 == len(again.stdout.splitlines())


def test_a_missing_peer_is_one_line_with_the_command_that_runs_it():
    """The package lives in an environment of its own; elsewhere its script prints the command."""
    done = run("peer_whisperlivekit.py", "--minutes", "0.1")

    assert done.returncode == 1
    assert "found none; run: nox -s whisperlivekit" in done.stderr
    assert 1 == len(done.stderr.splitlines())


def test_words_of_the_material_are_where_it_sounds(room):
    """There is silence between words, and sound in each word."""
    material = room("streams").stream_of(30.0)
    words = material.reference.words

    assert 30.0 == material.seconds
    assert len(words) >= 18
    assert " ".join(word.text for word in words) == material.reference.text
    for word in words:
        samples = material.audio[round(word.start * 16_000) : round(word.end * 16_000)]
        assert np.abs(samples).max() > 0.01
    silent = np.ones(len(material.audio), dtype=bool)
    for word in words:
        silent[int(word.start * 16_000) : int(word.end * 16_000) + 2] = False
    assert not material.audio[silent].any()


def test_a_longer_stream_begins_like_a_shorter_one(room):
    """Figures of one minute and of ten minutes come from the same audio, as far as both go."""
    stream_of = room("streams").stream_of
    short, long = stream_of(20.0), stream_of(40.0)
    count = len(short.reference.words)

    assert short.reference.words == long.reference.words[:count]


def test_the_published_processor_works_once_a_chunk(room):
    """A recorder that asks until nothing is left does not make it do its work twice."""
    peer = room("peer_whisperlivekit")
    inner = FakeProcessor()
    stream = peer.PublishedStream(inner=inner, counts=peer.Counts())

    events = list(record_stream(stream, [np.zeros(40_000, dtype=np.float32)]))

    assert [16_000, 16_000, 8_000] == inner.lengths
    assert 3 == inner.calls
    texts = [token.text for event in events for token in getattr(event, "tokens", ())]
    assert [" one", " one", " one", " two"] == texts
    assert 2.5 == events[-1].audio_time
