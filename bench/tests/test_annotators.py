from __future__ import annotations

import json
import random
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from wlk_bench.annotators.playing import play
from wlk_bench.annotators.speakers import diarization_errors
from wlk_bench.annotators.speakers import figures as of_speakers
from wlk_bench.annotators.turns import figures as of_turns
from wlk_bench.data import Sample
from wlk_bench.recorder import Clock
from wlk_bench.reference import Reference, ReferenceTurn, ReferenceWord
from wlk_conformance.testing import connected_digits
from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.processor import WorkCounters
from wlk_core.tokens import SpeakerSpan, TranslatedText

from .conftest import run_command, write_wav

A, B = ReferenceTurn("ann", 0.0, 4.0), ReferenceTurn("bo", 4.0, 8.0)


def spans(*found):
    """Return the spans of a diarizer."""
    return [SpeakerSpan(*each) for each in found]


@pytest.mark.parametrize(
    ("turns", "found", "collar", "parts"),
    [
        pytest.param([A, B], [(1, 0, 4), (0, 4, 8)], 0.0, (8, 0, 0, 0), id="other names"),
        pytest.param([A, B], [(0, 0, 3), (1, 4, 9)], 0.0, (8, 1, 1, 0), id="missed, false alarm"),
        pytest.param([A, B], [(0, 0, 5), (1, 5, 8)], 0.0, (8, 0, 0, 1), id="late change"),
        pytest.param([A, B], [(0, 0, 8)], 0.0, (8, 0, 0, 4), id="one speaker"),
        pytest.param([A, B], [], 0.0, (8, 8, 0, 0), id="nobody"),
        pytest.param([], [], 0.0, (0, 0, 0, 0), id="nothing"),
        pytest.param(
            [A, ReferenceTurn("bo", 2.0, 6.0)], [(0, 0, 4), (1, 4, 6)], 0.0, (8, 2, 0, 0),
            id="two at a time",
        ),
        # Half of the collar on either side of 0, 4 and 8.
        pytest.param([A, B], [(0, 0, 5), (1, 5, 8)], 0.5, (7, 0, 0, 0.75), id="collar"),
    ],
)  # fmt: skip
def test_the_parts_of_the_error_rate_are_those_by_hand(turns, found, collar, parts):
    """Total, missed, false alarm and confusion are in seconds."""
    errors = diarization_errors(turns, spans(*found), collar)

    assert (errors.total, errors.missed, errors.false_alarm, errors.confusion) == pytest.approx(
        parts
    )


def test_confusion_near_a_change_of_speaker_is_counted_separately():
    """Of two seconds of confusion, half a second is within half a second of the change."""
    errors = diarization_errors([A, B], spans((0, 0, 2), (1, 2, 8)))

    assert (errors.confusion, errors.confusion_near) == pytest.approx((2.0, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("collar", [0.0, 0.25])
def test_the_error_rate_is_that_of_pyannote(collar):
    """The conversations have three speakers and overlap, and the labels many kinds of errors."""
    metrics = pytest.importorskip("pyannote.metrics.diarization")
    core = pytest.importorskip("pyannote.core")

    def annotation(turns):
        made = core.Annotation()
        for index, turn in enumerate(turns):
            made[core.Segment(turn.start, turn.end), index] = turn.speaker
        return made

    for seed in range(20):
        chance = random.Random(seed)  # noqa: S311 -- no secrets
        turns, found, at = [], [], {}
        for _ in range(30):
            who = chance.choice("abc")
            start = max(at.get(who, 0.0), max(at.values(), default=0.0) - chance.uniform(-1, 1))
            at[who] = start + chance.uniform(0.2, 4)
            turns.append(ReferenceTurn(who, start, at[who]))
        last = {}
        for turn in turns:
            label = "abc".index(turn.speaker) if chance.random() > 0.2 else chance.randrange(4)
            start = max(last.get(label, 0.0), turn.start + chance.uniform(-0.3, 0.3))
            end = max(start + 0.1, turn.end + chance.uniform(-0.3, 0.3))
            last[label] = end
            found.append(SpeakerSpan(label, start, end))
        expected = metrics.DiarizationErrorRate(collar=collar).compute_components(
            annotation(turns), annotation(found), uem=core.Timeline([core.Segment(-9, 999)])
        )
        errors = diarization_errors(turns, found, collar)

        assert [errors.total, errors.missed, errors.false_alarm, errors.confusion] == pytest.approx(
            [expected[name] for name in ("total", "missed detection", "false alarm", "confusion")]
        )


def talk():
    """Return "zero one" twice with 0.6 s of silence in between, and 1.5 s of silence at the end."""
    clip = connected_digits(2, seed=3)
    length = round(16_000 * clip.words[-1].end)
    quiet = [np.zeros(round(16_000 * seconds), np.float32) for seconds in (0.3, 1.5)]
    audio = np.concatenate([clip.audio[:length], quiet[0], clip.audio[:length], quiet[1]])
    end = 2 * length / 16_000 + 0.3
    words = [
        ReferenceWord(word.text.strip(), word.start + offset, word.end + offset)
        for offset in (0.0, length / 16_000 + 0.3)
        for word in clip.words
    ]
    return Sample(
        id="talk",
        audio=lambda: iter([audio]),
        seconds=len(audio) / 16_000,
        reference=Reference(text="", words=tuple(words)),
        turns=(ReferenceTurn("ann", 0.0, end),),
        ends=(end,),
        translation="null eins null eins",
    )


@pytest.mark.slow
def test_a_label_is_late_by_the_audio_that_came_after_its_speech():
    """A diarizer that waits for a second of audio is a second late, plus up to one chunk."""
    sample = talk()
    turn = sample.turns[0]
    diarizer = ScriptedDiarizer([SpeakerSpan(0, 0.0, 1.0), SpeakerSpan(0, 1.0, turn.end)])

    events = play(sample, "diarizer", diarizer, 0.1, clock=Clock(timer=lambda: 0.0))
    found = of_speakers([(sample, events)])

    assert found["DER, collar of 0 s"]["rate"] == pytest.approx(0.0)
    assert found["with the true number of speakers"] == 1
    assert 1.0 <= found["delay of a label after its speech"]["p50"] <= 2.3


class Opinion:
    """A turn detector that always gives the same answer."""

    def __init__(self, over):
        self.over = over

    def reset(self):
        """Remember nothing."""

    def close(self):
        """Release nothing."""

    stats = WorkCounters()

    def insert_audio_chunk(self, audio):
        """Keep nothing."""

    def end_of_turn(self, _text):
        """Return the answer."""
        return self.over


@pytest.mark.parametrize(("over", "false", "delay", "waited"), [(1, 1, 0.45, 0), (0, 0, 1.2, 1)])
def test_ends_of_turns_are_those_of_the_detector_or_of_silence(over, false, delay, waited):
    """A detector that says yes ends the turn in the pause inside it; one that says no waits."""
    sample = talk()
    events = play(sample, "turn-detector", Opinion(over), 0.1, clock=Clock(timer=lambda: 0.0))

    found = of_turns([(sample, events)])

    assert (found["pauses inside turns"], found["ends of turns"]) == (1, 1)
    assert found["detector"]["false ends"]["rate"] == false
    assert found["detector"]["missed ends"] == 0
    assert found["detector"]["delay"]["p50"] == pytest.approx(delay, abs=0.1)
    assert found["ends by the silence of the session"] == waited
    assert found["silence of 0.4 s"]["false ends"]["rate"] == 1
    assert found["silence of 0.8 s"]["false ends"]["rate"] == 0


def test_an_utterance_that_goes_on_before_the_silence_is_over_has_no_end():
    """A reluctant detector and long silences miss the end of the first half; 0.0 has no pause."""
    sample = attrs.evolve(talk(), ends=(0.0, talk().reference.words[1].end))
    events = play(sample, "turn-detector", Opinion(0), 0.1, clock=Clock(timer=lambda: 0.0))

    found = of_turns([(sample, events)])

    assert (found["ends of turns"], found["ends without a pause"]) == (1, 1)
    assert found["detector"]["missed ends"] == 1
    assert found["silence of 0.8 s"]["missed ends"] == 1
    assert found["silence of 0.4 s"]["missed ends"] == 0


class Shouting:
    """A translator whose clauses are two words, done a second after the second word came."""

    def __init__(self, clock):
        self.clock = clock
        self.stats = WorkCounters()
        self.reset()

    def reset(self):
        """Forget everything."""
        self._open, self._waiting = [], []

    def close(self):
        """Release nothing."""

    def insert_tokens(self, tokens):
        """Append tokens; two make a clause."""
        for token in tokens:
            self._open.append(token)
            if len(self._open) == 2:
                text = "".join(each.text for each in self._open).upper()
                clause = TranslatedText(text, self._open[0].start, self._open[1].end)
                self._waiting.append((self.clock.now + 1.0, clause))
                self._open = []

    def process_iter(self, *_is_last):
        """Return the clauses that are done."""
        done = [text for due, text in self._waiting if due <= self.clock.now]
        self._waiting = [each for each in self._waiting if each[1] not in done]
        return done

    def finish(self):
        """Return the rest."""
        done, self._waiting = [text for _, text in self._waiting], []
        return done


def test_a_translation_is_late_since_the_commit_of_its_last_word():
    """Two clauses come a second after their words; chrF is that of the joined translations."""
    of_translation = pytest.importorskip("wlk_bench.annotators.translation").figures
    sample, clock = attrs.evolve(talk(), translation="ZERO ONE ZERO ONE"), Clock(timer=lambda: 0.0)
    events = play(sample, "translator", Shouting(clock), 0.1, clock=clock)

    found = of_translation([(sample, events)])

    assert (found["words"], found["words in one translation"]) == (4, 4)
    assert found["delay after the commit of a clause"]["p50"] == pytest.approx(1.05, abs=0.06)
    assert found["chrF"] == pytest.approx(100)


@pytest.fixture
def offered(monkeypatch):
    """Install a diarizer that makes no errors; return the arguments that it is loaded with."""
    loaded = {}

    class FakeRegistry:
        def model_spec(self, name):
            return SimpleNamespace(kind="backend" if name == "whisper" else "diarizer")

        def load_annotator(self, *names, **options):
            loaded.update(names=names, options=options)
            return ScriptedDiarizer([SpeakerSpan(0, 0.0, 1.0)])

    monkeypatch.setattr("wlk_core.registry.Registry", FakeRegistry)
    return loaded


def manifest_of(folder, **fields):
    """Write a second of zeros and the manifest that lists it."""
    write_wav(folder / "a.wav", np.zeros(16_000, np.float32))
    path = folder / "a.jsonl"
    path.write_text(json.dumps({"audio": "a.wav", **fields}), encoding="utf-8")
    return path


def test_the_command_prints_figures_and_writes_them(tmp_path, capsys, offered):
    """The JSON file has the setup and the figures; options are passed to the annotator."""
    manifest = manifest_of(tmp_path, turns=[["ann", 0.0, 1.0]])
    output = ["--option", "speakers=2", "--output", str(tmp_path / "out.json")]

    assert run_command(["annotator", "who=model", str(manifest), *output]) == 0
    report = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert offered == {"names": ("diarizer", "who=model"), "options": {"speakers": "2"}}
    assert report["summary"]["DER, collar of 0 s"]["rate"] == 0.0
    assert "DER, collar of 0.25 s" in capsys.readouterr().out


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("who", {}, 'expected "turns" of a in '),
        ("who", {"turns": [["ann", 2.0, 1.0]]}, "expected 0 <= start < end in seconds for 'ann'"),
        ("who", {"turns": [["ann", 1.0, 1.0]]}, "expected 0 <= start < end in seconds for 'ann'"),
        ("who", {"turns": [["ann", 0.3]]}, 'expected "turns" as [speaker, start, end] in seconds '),
        ("who", {"turns": 5}, 'expected "turns" as [speaker, start, end] in seconds in line 1 of '),
        ("who", {"ends": ["x"]}, 'expected "ends" as seconds in line 1 of '),
        ("who", {"ends": [0.5, 7.0]}, "expected ends from 0 to 1 s in line 1 of "),
        ("whisper", {}, "expected an annotator, got the backend whisper; use wlk-bench run"),
    ],
)
def test_what_cannot_be_measured_is_one_line(name, fields, message, tmp_path, capsys):
    """So are a manifest without turns, one with invalid turns or ends, and a backend."""
    assert run_command(["annotator", name, str(manifest_of(tmp_path, **fields))]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
