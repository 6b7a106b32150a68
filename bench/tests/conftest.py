"""Streams with an exactly known reference, without a model."""

from __future__ import annotations

from functools import partial
import json
import random
import struct

from hypothesis import settings
import numpy as np
import pytest

from wlk_bench import config as config_module
from wlk_bench.cli import main
from wlk_bench.data import Dataset, Sample
from wlk_bench.events import AudioIn, Commit, End, EventLog, Header, HypothesisShown, TimedText
from wlk_bench.reference import Reference, ReferenceSegment, ReferenceWord
from wlk_bench.selftest import call
from wlk_conformance.scripted import DIGIT_WORDS, SCRIPTED_SPEC, ScriptedBackend
from wlk_conformance.testing import CodedToken, encode, script_words
from wlk_core.cli.main import execute
from wlk_core.errors import BackendUnavailable

# The same examples everywhere, and no deadline, because a shared machine can be slow.
steady = settings(deadline=None, max_examples=50, derandomize=True)

VOCABULARY = ["zero", "one", "two", "three", "four", "five", "six", "seven", "hour", "tour", "no."]

run_command = partial(execute, command=main, name="wlk-bench")


class FakeRegistry:
    """The registry of an environment in which only some scripted backends are installed."""

    distribution = "wlk-core"

    def __init__(self, *specs, broken=()):
        self._specs = {spec.name: spec for spec in specs or (SCRIPTED_SPEC,)}
        self._broken = broken

    def specs(self):
        """Return all declarations."""
        return tuple(self._specs.values())

    def spec(self, name):
        """Return one declaration."""
        return self._specs[name]

    def owner(self, _name):
        """Return the distribution that offers a backend."""
        return self

    def load_backend(self, name, _model=None, **_options):
        """Return a new backend, or fail like a framework without a device."""
        if name in self._broken:
            raise BackendUnavailable(f"{name} finds no device")
        return ScriptedBackend()


@pytest.fixture
def scripted(monkeypatch):
    """Make the scripted backend the only one installed."""
    monkeypatch.setattr(config_module, "Registry", FakeRegistry)


def coded_tokens(count, *, seed=0):
    """Return *count* coded words with pauses between them."""
    rng = np.random.default_rng(seed)
    tokens, cell = [], 4
    for _ in range(count):
        tokens.append(CodedToken(int(rng.integers(1, 11)), cell))
        cell += 3 + int(rng.integers(1, 8))
    return tokens


def coded_sample(name, count=6, *, seed=0, group="all"):
    """Return a sample of coded audio with exact word times."""
    tokens = coded_tokens(count, seed=seed)
    audio = encode(tokens, cells=tokens[-1].start + 10)
    words = script_words(tokens, DIGIT_WORDS)
    return Sample(
        id=name,
        audio=lambda: iter([audio]),
        seconds=len(audio) / 16_000,
        reference=Reference(
            text=" ".join(word.text.strip() for word in words),
            words=tuple(ReferenceWord(w.text.strip(), w.start, w.end) for w in words),
        ),
        group=group,
        speaker=name,
    )


def coded_dataset(count=3):
    """Return a data set of coded samples."""
    samples = tuple(coded_sample(f"sample-{index}", seed=index) for index in range(count))
    return Dataset(
        name="coded", mode="utterance", samples=samples, language="en", normaliser="basic"
    )


def coded_manifest(folder, count=2):
    """Write coded audio as float WAV files, and the manifest that lists them."""
    lines = []
    for index in range(count):
        sample = coded_sample(f"sample-{index}", seed=index)
        write_wav(folder / f"{sample.id}.wav", np.concatenate(list(sample.audio())))
        words = [[word.text, word.start, word.end] for word in sample.reference.words]
        lines.append({"audio": f"{sample.id}.wav", "text": sample.reference.text, "words": words})
    path = folder / "coded.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_wav(path, audio, rate=16_000):
    """Write a WAV file with unchanged float samples."""
    data = audio.astype("<f4").tobytes()
    form = struct.pack("<HHIIHH", 3, 1, rate, 4 * rate, 4, 32)
    path.write_bytes(
        b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", len(form))
        + form + b"data" + struct.pack("<I", len(data)) + data
    )  # fmt: skip


def random_log(seed, *, segments=5, name=None):
    """
    Return the log of a stream of several segments, with errors, flicker and delays from *seed*.

    The hypothesis is the next words with mistakes in them; a tick commits some of what it showed.
    """
    rng = random.Random(seed)  # noqa: S311 -- reproducible streams, no secrets
    spans, clock = [], 0.0
    for _ in range(segments):
        span = [rng.choice(VOCABULARY) for _ in range(rng.randint(1, 7))]
        spans.append(ReferenceSegment(" ".join(span), clock, clock + 0.4 * len(span)))
        clock += 0.4 * len(span) + rng.choice([0.0, 0.5])
    reference = [word for span in spans for word in span.text.split()]
    words = [rng.choice(VOCABULARY) if rng.random() < 0.15 else word for word in reference]
    words = [word for word in words if rng.random() > 0.1] or ["zero"]
    seconds, events, done, now = clock, [], 0, 0.0
    ticks = max(1, int(seconds))
    for tick in range(1, ticks + 1):
        audio_time = float(tick) if tick < ticks else seconds
        now = max(now, audio_time)
        events.append(AudioIn(audio_time=audio_time, wall=now))
        busy = rng.uniform(0.05, 1.3)
        events.append(call(audio_time, now, busy, stable=audio_time))
        now += busy
        reach = min(len(words), round(len(words) * tick / ticks) - rng.randint(0, 2))
        if reach > done:
            events.append(_commit(audio_time, now, words[done:reach]))
            done = reach
        shown = [rng.choice([word, word, "too"]) for word in words[done : done + 3]]
        events.append(HypothesisShown(audio_time=audio_time, wall=now, tokens=_tokens(shown)))
    events.append(call(seconds, now, 0.2, stable=seconds, kind="finish"))
    now += 0.2
    if words[done:]:
        events.append(_commit(seconds, now, words[done:]))
    events += [
        HypothesisShown(audio_time=seconds, wall=now, tokens=()),
        End(audio_time=seconds, wall=now),
    ]
    header = Header(
        audio=name or f"stream-{seed}",
        audio_seconds=seconds,
        reference=Reference(text=" ".join(reference), segments=tuple(spans)),
    )
    return EventLog(header=header, events=tuple(events))


def _tokens(words):
    return tuple(TimedText(0.0, 0.0, f" {word}") for word in words)


def _commit(audio_time, wall, words):
    return Commit(audio_time=audio_time, wall=wall, tokens=_tokens(words))
