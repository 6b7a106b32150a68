"""Signals at the worst moments of a transcription, raised at known points."""

from __future__ import annotations

import json
import signal

import pytest

from wlk_core.cli.signals import SIGNALS, SignalReceived
from wlk_live.cli.outputs import TextFile
from wlk_live.cli.plan import SUFFIXES
from wlk_live.cli.signals import hold_signals, release_signals

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
RECORDING = [*range(10), *range(10)]


@pytest.fixture(autouse=True)
def handlers(own_signals):
    """Install the handlers of the command line for one test."""
    SIGNALS.reset()
    SIGNALS.install()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_held_signal_raises_when_the_text_is_written():
    """The first signal counts; others that come while signals are held change nothing."""
    hold_signals()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.raise_signal(number)

    with pytest.raises(SignalReceived) as caught:
        release_signals()

    assert str(caught.value) == "stopped by SIGTERM"
    assert signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL  # it kills a run that hangs


def test_a_held_signal_raises_wherever_a_run_hangs():
    """An engine that never returns cannot keep the program from stopping: an alarm ends it."""
    hold_signals()
    signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SignalReceived) as caught:
        signal.raise_signal(signal.SIGALRM)

    assert str(caught.value) == "stopped by SIGTERM"


def words_of(style, text):
    """Return the words of a result, parsed as strictly as the format allows."""
    if style == "text":
        return text.split()
    if style == "json":
        return json.loads(text)["text"].split()
    if style == "jsonl":
        events = [json.loads(line) for line in text.splitlines()]
        commits = [event for event in events if event["event"] == "commit"]
        return "".join(token["text"] for commit in commits for token in commit["tokens"]).split()
    cues = [cue.splitlines() for cue in text.removeprefix("WEBVTT\n\n").split("\n\n") if cue]
    lines = [cue[1:] if style == "srt" else cue for cue in cues]
    assert all(" --> " in times and text for times, *text in lines)
    return " ".join(line for _, *text in lines for line in text).split()


@pytest.fixture
def committed(toy_engine, monkeypatch):
    """Return a list that grows with the words that processors commit."""
    words = []
    load = toy_engine.load

    def recorded(call):
        def record():
            emission = call()
            words.extend(token.text.strip() for token in emission.committed)
            return emission

        return record

    def load_and_record(spec, model):
        backend = load(spec, model)
        create = backend.create_processor

        def create_and_record(**options):
            processor = create(**options)
            for name in ("process_iter", "finish"):
                monkeypatch.setattr(processor, name, recorded(getattr(processor, name)))
            return processor

        monkeypatch.setattr(backend, "create_processor", create_and_record)
        return backend

    monkeypatch.setattr(toy_engine, "load", load_and_record)
    return words


def in_the_engine(toy_engine, monkeypatch, number, count):
    """Raise a signal during the *count*-th engine call."""
    transcribe = toy_engine.Engine.transcribe
    calls = []

    def interrupted(self, audio, **options):
        calls.append(audio)
        if len(calls) == count:
            signal.raise_signal(number)
        return transcribe(self, audio, **options)

    monkeypatch.setattr(toy_engine.Engine, "transcribe", interrupted)


def in_the_output(toy_engine, monkeypatch, number, count):
    """Raise a signal during the *count*-th write of text."""
    write = TextFile.write
    calls = []

    def interrupted(self, text):
        calls.append(text)
        if len(calls) == count:
            signal.raise_signal(number)
        write(self, text)

    monkeypatch.setattr(TextFile, "write", interrupted)


MOMENTS = [
    *((style, in_the_engine, count) for style in SUFFIXES for count in (1, 4, 9)),
    *((style, in_the_output, 1) for style in SUFFIXES),
    *((style, in_the_output, 2) for style in SUFFIXES if style != "json"),  # written in one piece
]
NAMES = [f"{style}-{interrupt.__name__}-{count}" for style, interrupt, count in MOMENTS]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize(("style", "interrupt", "count"), MOMENTS, ids=NAMES)
def test_everything_committed_is_in_a_valid_file(
    *, command, recording, tmp_path, toy_engine, monkeypatch, committed, style, number,
    interrupt, count,
):  # fmt: skip
    """A signal during an engine call or a write loses no committed word."""
    interrupt(toy_engine, monkeypatch, number, count)
    target = tmp_path / "out"
    path = recording("a.wav", *RECORDING)

    done = command(
        *("transcribe", "--no-vad", path, "--chunk-seconds", "0.5"),
        *("--format", style, "--output", target),
    )

    words = words_of(style, target.read_text()) if target.exists() else []
    assert done.status == 128 + number
    assert words == committed
    assert words == (DIGITS + DIGITS)[: len(words)]
    if words and style == "json" and interrupt is in_the_engine:
        reason = json.loads(target.read_text())["incomplete"]
        assert reason == f"stopped by {signal.Signals(number).name}"


FILTER = """
@hookimpl
def wlk_text_filters():
    yield AnnotatorSpec(
        kind="text-filter", name="late", api=1, summary="waits", load=f"{__name__}:load",
        options=[Option(name="language")],
    )

def load(spec, model, **options):
    from wlk_core.plugins import WorkCounters
    return SimpleNamespace(
        replace=lambda tokens, *, is_last: ([], len(tokens) if is_last else 0),
        reset=lambda: None, close=lambda: None, stats=WorkCounters(),
    )
"""


@pytest.mark.parametrize("style", ["text", "json"])
def test_words_that_wait_for_a_text_filter_are_written_too(
    *, command, recording, site, toy_engine, monkeypatch, committed, style
):
    """A signal that abandons a recording does not abandon what its model has committed."""
    site.install("wlk-late", ["late"], FILTER)
    in_the_engine(toy_engine, monkeypatch, signal.SIGTERM, 9)
    done = command(
        *("transcribe", "--no-vad", recording("a.wav", *RECORDING), "--chunk-seconds", "0.5"),
        *("--format", style, "--filter", "late"),
    )

    assert done.status == 128 + signal.SIGTERM
    assert words_of(style, done.out) == committed
    assert committed


def test_a_signal_that_a_plugin_swallows_still_ends_the_run(
    command, recording, toy_engine, monkeypatch
):
    """A loader that catches everything cannot keep the program from stopping."""
    load = toy_engine.load

    def stubborn(spec, model):
        with pytest.raises(SignalReceived):
            signal.raise_signal(signal.SIGTERM)
        return load(spec, model)

    monkeypatch.setattr(toy_engine, "load", stubborn)

    assert command("transcribe", "--no-vad", recording("a.wav", 1)) == (
        143, "", "wlk-core: interrupted; everything done so far is kept\n",
    )  # fmt: skip
