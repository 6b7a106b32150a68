"""The scripts of benchmarks/: they run to the end, and their material matches its reference."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
import re
import subprocess
import sys
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from wlk_bench.agent.command import agent
from wlk_bench.agent.protocols import PROTOCOLS, SessionSettings
from wlk_bench.errors import DataError
from wlk_bench.recorder import record_stream
from wlk_conformance.testing import load_clip
from wlk_conformance.testing.digits import clip_path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def load_script(monkeypatch):
    """Return a function that imports a module of benchmarks/, which is not a package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def run(script, *arguments):
    """Run a benchmark to the end."""
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *arguments],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@attrs.define
class FakeProcessor:
    """An online processor with whisperlivekit's interface: it emits a word for each chunk."""

    lengths: list[int] = attrs.field(factory=list)
    calls: int = 0

    def insert_audio_chunk(self, audio, audio_stream_end_time):
        """Record the length of a chunk."""
        self.lengths.append(len(audio))

    def process_iter(self):
        """Return two values: the words of a chunk, and a time."""
        self.calls += 1
        return [SimpleNamespace(start=0.0, end=0.5, text=" one")], float(self.calls)

    def start_silence(self):
        """Return the words of a flush; there is no `finish`."""
        return [SimpleNamespace(start=0.0, end=0.5, text=" two")], float(self.calls)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="they read processor times from /proc")
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (
            "whisper.py --minutes 0.2",
            ["faster-whisper local-agreement", r"fewer positions \(target 4x each\)"],
        ),
        (
            "trips.py",
            [
                r"insert_audio_chunk +\d+ +\d+ +\d+\n",
                r"without a policy +([1-5]\d|60) +\d+ +([1-3]\d|40)\n",  # 40 changes of file
                r"LoadedBackend` loads: \d+\n",
            ],
        ),
        (
            "serve_trips.py --sessions 1 --seconds 1",
            [
                # At most 60 functions and 40 changes of file, 14 frames and 3 copies.
                (
                    r"no gate .*\n(.*\n){3}  all +([1-5]\d|60) +([1-3]\d|40)\n"
                    r"  frames (\d|1[0-4]) .*copies [0-3]\n"
                ),
                r"server_vad, chunks of 50 ms: \d+\.\d+ ms of processor time",
            ],
        ),
        ("realtime.py --seconds 5", ["added", "work equal; words equal"]),
        (
            "qwen3.py --minutes 0.2 --backend qwen3-simul",
            [
                r"frames for each new one \(target 5\)",
                r"host syncs a tick \(target 5\)",
                "for each word committed",
            ],
        ),
        (
            "serve.py --sessions 1 --seconds 6",
            [
                r"(?s)(wlk-serve[^\n]*errors 0/6\n.*){2}",
                r"(?s)(chunks sent p50 \d+, p99 \d+ ms late\n.*){2}",
            ],
        ),
    ],
    ids=["whisper", "trips", "serve_trips", "realtime", "qwen3", "serve"],
)
def test_a_benchmark_prints_its_rows(command, printed):
    """They show the work, words and targets of installed backends; a line names a missing one."""
    done = run(*command.split())

    assert done.returncode == 0, done.stderr
    if "left out" in done.stdout and "qwen3" in command:
        pytest.skip(done.stdout.strip())
    assert [pattern for pattern in printed if not re.search(pattern, done.stdout)] == [], (
        done.stdout
    )


@pytest.mark.slow
def test_recordings_are_measured_live_and_whole_and_a_second_run_only_prints(tmp_path, load_script):
    """Rows that are complete are not measured again."""
    peer = load_script("peer_whisperlivekit")
    demo = load_clip("demo")
    words = [[word.text.strip(), word.start, word.end] for word in demo.words]
    line = {"audio": str(clip_path("demo")), "words": words}
    manifest, output = tmp_path / "demo.jsonl", tmp_path / "results"
    manifest.write_text(json.dumps(line) + "\n", encoding="utf-8")
    model = f"faster-whisper={peer.CTRANSLATE2}"
    contenders = ("--contender", "faster-whisper", "--contender", "whole-file,beam_size=1")
    arguments = (str(manifest), *contenders, "--model", model, "--output", str(output))
    first, second = (run("real_speech.py", *arguments) for _ in range(2))
    again = run("real_speech.py", *arguments, "--peer", str(output))

    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    live, whole = first.stdout.splitlines()[2:]
    assert live.startswith("faster-whisper, 1 s")
    assert whole.startswith("whole-file,beam_size=1")
    assert len(again.stdout.splitlines()) == 2 + 4


def test_rows_of_final_texts_are_commands_that_wlk_bench_takes(load_script, tmp_path):
    """A run of hours does not end at a row whose protocol lacks an option."""
    script = load_script("final_text")
    arguments = SimpleNamespace(sentences=tmp_path / "manifest.jsonl", limit=2)
    refused = []
    for row in script.ROWS:
        _, _, _, _, *given = script.client_command(row, arguments, "ws://server")
        wanted = agent.make_context("agent", given).params
        fields = ("model", "language", "silence_seconds", "commit_seconds")
        settings = SessionSettings(**{name: wanted[name] for name in fields})
        try:
            PROTOCOLS[wanted["protocol"]](settings)
        except DataError as error:
            refused.append((row.name, str(error)))

    assert refused == []
    assert len({row.name for row in script.ROWS}) == len(script.ROWS)


def test_a_row_of_final_texts_that_is_complete_is_only_read(load_script, tmp_path, monkeypatch):
    """It is measured again if it was of another number of sentences."""
    script = load_script("final_text")
    row = script.ROWS[0]
    sentences = tmp_path / "manifest.jsonl"
    wanted = {
        "backend": row.backend,
        "options": list(row.options),
        "client": list(row.client),
        "model": row.model,
        "data": f"manifest:{sentences}",
        "limit": 2,
    }
    (tmp_path / f"{row.name}.json").write_text(json.dumps({"row": wanted}))

    def refuse(*_command, **_options):
        raise SystemExit("started")

    monkeypatch.setattr(script, "run_server", refuse)
    arguments = SimpleNamespace(output=tmp_path, models=tmp_path, sentences=sentences, limit=2)

    assert script.measure(row, arguments) == {"row": wanted}
    arguments.limit = None
    with pytest.raises(SystemExit, match="started"):
        script.measure(row, arguments)


def test_words_of_the_material_are_where_it_sounds(load_script):
    """There is sound in each word, and silence between words."""
    material = load_script("streams").stream_of(30.0)
    words = material.reference.words

    assert material.seconds == 30.0
    assert len(words) >= 18
    assert " ".join(word.text for word in words) == material.reference.text
    for word in words:
        samples = material.audio[round(word.start * 16_000) : round(word.end * 16_000)]
        assert np.abs(samples).max() > 0.01
    silent = np.ones(len(material.audio), dtype=bool)
    for word in words:
        silent[int(word.start * 16_000) : int(word.end * 16_000) + 2] = False
    assert not material.audio[silent].any()


def test_the_published_processor_works_once_a_chunk(load_script):
    """A recorder that calls until there is no backlog does not make it decode a chunk twice."""
    peer = load_script("peer_whisperlivekit")
    inner = FakeProcessor()
    stream = peer.PublishedStream(inner=inner, counts=peer.Counts())

    events = list(record_stream(stream, [np.zeros(40_000, dtype=np.float32)]))

    assert inner.lengths == [16_000, 16_000, 8_000]
    assert inner.calls == 3
    texts = [token.text for event in events for token in getattr(event, "tokens", ())]
    assert texts == [" one", " one", " one", " two"]
    assert events[-1].audio_time == 2.5


@pytest.mark.parametrize(
    ("finals", "commits", "delays"),
    [
        # Text that ends before the middle of the last word does not count.
        ([(1.8, 0.9), (2.5, 1.9), (3.0, 2.0)], [], [0.5, math.inf]),
        ([(2.5, 2.0), (6.5, 6.0)], [2.1, 6.1], pytest.approx([0.4, 0.4])),  # from the commit
    ],
)
def test_a_delay_is_to_the_first_final_text_with_the_last_word(
    load_script, finals, commits, delays
):
    """It runs from the end of speech, or from the commit of a client that ends its utterances."""
    talk = load_script("serve_load.talk")
    speech = talk.Talk(None, (talk.Utterance(1.0, 2.0), talk.Utterance(5.0, 6.0)), ())

    assert talk.Report(finals=finals, commits=commits).delays(speech) == delays


def test_a_talk_has_whole_utterances_with_their_times(load_script):
    """Each has six words, and silence after the last one."""
    speech = load_script("serve_load.talk").talk_of(15.0, 0)

    assert len(speech.words) == 6 * len(speech.utterances)
    assert 0 < len(speech.audio) <= 15 * 16_000
    for utterance in speech.utterances:
        tail = speech.audio[round(utterance.end * 16_000) :][:16_000]
        assert utterance.last_start < utterance.end
        assert abs(tail).max() == 0
