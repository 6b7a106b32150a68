from __future__ import annotations

import wave

import numpy as np
import pytest

from wlk_bench.data import Sample, join_chapters, load_dataset
from wlk_bench.errors import DataError
from wlk_bench.recorder import Pause
from wlk_bench.reference import Reference, ReferenceWord
from wlk_conformance.testing import clip_names

from .conftest import coded_manifest, coded_sample, write_wav


def sample(name):
    """Return a sample with a second of zeros and one word."""
    return Sample(
        id=name,
        audio=lambda: iter([np.zeros(16_000, dtype=np.float32)]),
        seconds=1.0,
        reference=Reference(text=name, words=(ReferenceWord(name, 0.1, 0.4),)),
    )


def librispeech_folder(root, utterances):
    """Write WAV files in LibriSpeech's layout as .flac; FFmpeg detects formats by content."""
    for name, text in utterances.items():
        speaker, chapter, _ = name.split("-")
        folder = root / speaker / chapter
        folder.mkdir(parents=True, exist_ok=True)
        with wave.open(str(folder / f"{name}.flac"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes(b"\0\0" * 8000)
        with (folder / f"{speaker}-{chapter}.trans.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name} {text}\n")
    return root


UTTERANCES = {
    "61-7-0000": "ONE",
    "61-7-0001": "TWO",
    "61-8-0000": "THREE",
    "121-9-0000": "FOUR",
    "121-9-0001": "FIVE",
}


def test_the_digits_set_has_every_clip_with_exact_times():
    """The clips come first, all words have times, and the audio is the same every time."""
    dataset, again = load_dataset("digits"), load_dataset("digits").samples[-1]

    names = [sample.id for sample in dataset.samples]
    assert list(clip_names()) == names[: len(clip_names())]
    assert all(sample.reference.words for sample in dataset.samples)
    assert dataset.normaliser == "basic"
    assert dataset.samples[-1].reference == again.reference
    assert np.array_equal(next(dataset.samples[-1].audio()), next(again.audio()))


def test_a_long_stream_is_composed_of_digits():
    """It has at least the requested length, and one segment per utterance."""
    dataset = load_dataset("digits:0.5")

    (sample,) = dataset.samples
    assert 30.0 <= sample.seconds < 40.0
    assert dataset.mode == "chapter"
    assert len(sample.reference.segments) > 1
    assert sum(map(len, sample.audio())) == round(sample.seconds * 16_000)


def test_librispeech_is_read_by_utterance_chapter_and_speaker(tmp_path):
    """Utterances of a chapter are segments of one stream; a limit takes the speakers in turn."""
    data = f"librispeech:{librispeech_folder(tmp_path / 'clean', UTTERANCES)}"
    dataset, limited = load_dataset(data), load_dataset(data, limit=3)
    first, *_ = load_dataset(data, mode="chapter").samples

    assert [sample.id for sample in dataset.samples] == list(UTTERANCES)
    assert [sample.seconds for sample in dataset.samples] == [0.5] * 5
    assert (dataset.name, dataset.normaliser) == ("librispeech:clean", "english")
    assert [sample.id for sample in limited.samples] == ["61-7-0000", "61-7-0001", "121-9-0000"]
    assert limited.name == "librispeech:clean[3 of 5]"
    assert (first.id, first.reference.text) == ("61-7", "ONE TWO")
    assert [(s.start, s.end) for s in first.reference.segments] == [(0.0, 0.5), (1.0, 1.5)]
    assert sum(map(len, first.audio())) == round(1.5 * 16_000) == round(first.seconds * 16_000)


def test_utterances_without_a_recording_are_left_out_and_named(tmp_path, caplog):
    """A warning counts them; their speakers and chapters stay as they are."""
    folder = librispeech_folder(tmp_path / "clean", UTTERANCES)
    for name in ("61-7-0001", "121-9-0000"):
        next(folder.rglob(f"{name}.flac")).unlink()
    dataset = load_dataset(f"librispeech:{folder}")

    assert [sample.id for sample in dataset.samples] == ["61-7-0000", "61-8-0000", "121-9-0001"]
    assert dataset.missing == ("61-7-0001", "121-9-0000")
    assert [line.getMessage() for line in caplog.records] == [
        f"2 of 5 recordings are missing below {folder} and left out, 61-7-0001 first"
    ]


def test_word_times_move_with_their_chapter_and_gaps_can_be_silences():
    """Times count from the start of the stream; a reported pause is as long as the zeros."""
    samples = [sample("a"), sample("b")]
    (joined,), (paused,) = join_chapters(samples), join_chapters(samples, reports_pauses=True)

    assert [word.start for word in joined.reference.words] == [0.1, 1.6]
    assert [item for item in paused.audio() if isinstance(item, Pause)] == [Pause(0.5)]
    assert joined.seconds == paused.seconds == 2.5


def test_a_manifest_lists_recordings_and_word_times(tmp_path):
    """Audio paths are relative to the manifest, and samples are read as they were written."""
    dataset = load_dataset(f"manifest:{coded_manifest(tmp_path)}")

    first = dataset.samples[0]
    truth = coded_sample("sample-0", seed=0)
    assert first.reference == truth.reference
    assert np.array_equal(np.concatenate(list(truth.audio())), np.concatenate(list(first.audio())))


def test_words_of_a_manifest_may_be_objects(tmp_path):
    """So a manifest for finding alignment heads can be measured on, too."""
    write_wav(tmp_path / "a.wav", np.zeros(160, dtype=np.float32))
    path = tmp_path / "list.jsonl"
    path.write_text('{"audio": "a.wav", "words": [{"text": "so", "start": 0, "end": 0.01}]}\n')

    reference = load_dataset(f"manifest:{path}").samples[0].reference
    assert reference.words == (ReferenceWord("so", 0.0, 0.01),)


def test_the_text_of_a_manifest_may_be_its_words(tmp_path):
    """Without "text" the words are joined."""
    write_wav(tmp_path / "a.wav", np.zeros(160, dtype=np.float32))
    path = tmp_path / "list.jsonl"
    path.write_text('{"audio": "a.wav", "words": [["so", 0, 0.01], ["on", 0.01, 0.01]]}\n')

    assert load_dataset(f"manifest:{path}").samples[0].reference.text == "so on"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no JSON", "in line 1 of .*, got 'no JSON'"),
        ('{"text": "x"}', "in line 1 of"),
        ('{"audio": "gone.wav", "text": "x"}', "expected the recording .*gone.wav"),
        ('{"audio": "a.wav", "words": [["x", 2, 1]]}', "expected 0 <= start <= end"),
        ('{"audio": "a.wav", "words": [{"text": "x", "start": 0}]}', 'expected "words" as'),
        ("", "expected recordings in .*, got none"),
        ('{"audio": "a.wav"}\n{"audio": "a.wav"}', "got 'a' twice"),
    ],
    ids=["no-json", "no-audio", "no-file", "backward-word", "no-end", "empty", "one-name-twice"],
)
def test_an_invalid_line_is_named(tmp_path, line, message):
    """The message states the line, what was expected and what was found."""
    write_wav(tmp_path / "a.wav", np.zeros(160, dtype=np.float32))
    path = tmp_path / "list.jsonl"
    path.write_text(f"{line}\n", encoding="utf-8")

    with pytest.raises(DataError, match=message):
        load_dataset(f"manifest:{path}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("music", "expected --data digits"),
        ("librispeech:.", "below ., got none; unpack a set from"),
        ("manifest:/nowhere.jsonl", "expected a manifest of JSON lines"),
        *((f"digits:{m}", "up to 600 minutes") for m in ("long", "0", "-1", "nan", "1000")),
    ],
)
def test_missing_data_is_refused(data, message, tmp_path, monkeypatch):
    """The message says what to name instead."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message):
        load_dataset(data)
