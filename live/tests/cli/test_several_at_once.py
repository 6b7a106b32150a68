"""Several recordings at the same time, as `transcribe` runs a backend that batches."""

from __future__ import annotations

import json
import signal
import threading

import numpy as np
import pytest

from wlk_core.cli.signals import SIGNALS
from wlk_live.cli.plan import SUFFIXES


@pytest.fixture
def several(monkeypatch):
    """Return a function that chooses how many streams the backend batches."""

    def choose(count):
        monkeypatch.setattr("wlk_live.cli.runs.streams_at_once", lambda _spec: count)

    choose(3)
    return choose


@pytest.fixture
def first_is_last(toy_engine, monkeypatch):
    """Let the recording of the digit nine be decoded after all others."""
    transcribe, others = toy_engine.Engine.transcribe, threading.Semaphore(0)

    def wait(self, audio, **options):
        answer = transcribe(self, audio, **options)
        if any("nine" in word.text for word in answer.words):
            for _ in range(4):
                assert others.acquire(timeout=60)
        elif answer.words:
            others.release()
        return answer

    monkeypatch.setattr(toy_engine.Engine, "transcribe", wait)


def stable(text):
    """Return a result without the numbers that depend on the speed of this machine."""
    drop = ("busy_seconds", "wall_seconds")
    return [line for line in text.split(",") if not any(name in line for name in drop)]


@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.usefixtures("several", "first_is_last")
def test_results_are_printed_in_the_order_of_the_files(transcribe, recording, style):
    """A result waits for those before it, whichever is ready first."""
    files = [recording(f"{digit}.wav", digit) for digit in (9, 1, 2, 3, 4)]
    done = transcribe(*files, "--format", style)
    words = ["nine", "one", "two", "three", "four"]

    assert (done.status, done.err) == (0, "")
    assert words == (
        done.out.split() if style == "text" else [each["text"] for each in json.loads(done.out)]
    )


@pytest.mark.parametrize("style", SUFFIXES)
def test_every_file_gets_what_it_gets_alone(transcribe, recording, several, tmp_path, style):
    """In every format."""
    files = [recording(f"{name}.wav", *range(name, 10)) for name in range(6)]
    for count, folder in ((3, "together"), (1, "alone")):
        several(count)
        target = tmp_path / folder
        assert transcribe(*files, "--format", style, "--output", f"{target}/").status == 0
    names = [f"{path.stem}{SUFFIXES[style]}" for path in files]
    results = [
        [stable((tmp_path / folder / name).read_text()) for name in names]
        for folder in ("together", "alone")
    ]

    assert results[0] == results[1]
    assert "nine" in str(results[0][5])


@pytest.mark.usefixtures("several")
def test_a_file_that_fails_costs_no_other(transcribe, save, spoken, recording):
    """It is reported in one line; the words before the damage are kept."""
    bad = save("bad.wav", spoken(1, 2, 3), np.full(99, np.nan))
    done = transcribe(recording("a.wav", 4), bad, "missing.wav", recording("b.wav", 5))

    assert (done.status, done.out) == (1, "four\none two three\nfive\n")
    assert done.err.count("\n") == 2
    assert "missing.wav" in done.err.splitlines()[0]
    assert "bad.wav' at 1.5 s" in done.err.splitlines()[1]


@pytest.mark.usefixtures("several")
def test_an_option_that_is_refused_ends_all(transcribe, recording):
    """It is reported once."""
    done = transcribe(*(recording(f"{n}.wav", n) for n in range(5)), "--language", "xx")

    assert done.status == 2
    assert done.err.count("does not support the language") == 1


@pytest.mark.parametrize("style", ["text", "json", "jsonl"])
@pytest.mark.usefixtures("several")
def test_a_signal_loses_no_committed_word(
    *, command, recording, toy_engine, monkeypatch, tmp_path, style
):
    """Each recording in progress keeps its words; the others are not begun."""
    SIGNALS.reset()
    SIGNALS.install()
    transcribe, calls = toy_engine.Engine.transcribe, []

    def interrupted(self, audio, **options):
        calls.append(audio)
        if len(calls) == 9:
            signal.raise_signal(signal.SIGTERM)
        return transcribe(self, audio, **options)

    monkeypatch.setattr(toy_engine.Engine, "transcribe", interrupted)
    digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    files = [recording(f"{n}.wav", *range(10), *range(10)) for n in range(30)]
    done = command(
        *("transcribe", "--no-vad", *files, "--chunk-seconds", "0.5"),
        *("--format", style, "--output", f"{tmp_path}/out/"),
    )
    written = [path.read_text() for path in (tmp_path / "out").iterdir()]

    assert done.status == 143
    assert 0 < len(written) < 30
    for text in written:
        if style == "text":
            words = text.split()
        elif style == "json":
            words = json.loads(text)["text"].split()
        else:
            events = [json.loads(line) for line in text.splitlines()]
            tokens = [e["tokens"] for e in events if e["event"] == "commit"]
            words = "".join(token["text"] for each in tokens for token in each).split()
        assert words == (digits * 2)[: len(words)]


@pytest.mark.usefixtures("several")
def test_an_engine_that_hangs_keeps_no_result_from_being_written(
    *, command, recording, toy_engine, monkeypatch, tmp_path
):
    """A signal ends the run although one call never returns; every document is complete."""
    SIGNALS.reset()
    SIGNALS.install()
    monkeypatch.setattr("wlk_live.cli.signals._MAX_HOLD_SECONDS", 0.1)
    transcribe, calls, released = toy_engine.Engine.transcribe, [], threading.Event()

    def hanging(self, audio, **options):
        calls.append(audio)
        if len(calls) == 25:
            signal.raise_signal(signal.SIGTERM)
            released.wait(60)
        return transcribe(self, audio, **options)

    monkeypatch.setattr(toy_engine.Engine, "transcribe", hanging)
    files = [recording(f"{n}.wav", *range(10), *range(10)) for n in range(3)]
    before = set(threading.enumerate())
    done = command(
        *("transcribe", "--no-vad", *files, "--chunk-seconds", "0.5"),
        *("--format", "json", "--output", f"{tmp_path}/out/"),
    )
    documents = [json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()]
    released.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)

    assert done.status == 143
    assert documents
    assert all(document["text"] and document["stats"] for document in documents)
