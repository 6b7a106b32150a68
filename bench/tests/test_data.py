from __future__ import annotations

import json
import wave

import numpy as np
import pytest

from wlk_bench.data import Sample, chaptered, load_dataset
from wlk_bench.data.sample import spread
from wlk_bench.errors import DataError
from wlk_bench.recorder import Pause
from wlk_bench.reference import Reference, ReferenceWord
from wlk_conformance.testing import clip_names

from .conftest import coded_manifest, coded_sample, write_wav


def sample(name, speaker, seconds=1.0, group="g"):
    """Return a sample of zeros."""
    return Sample(
        id=name,
        audio=lambda: iter([np.zeros(round(seconds * 16_000), dtype=np.float32)]),
        seconds=seconds,
        reference=Reference(text=name, words=(ReferenceWord(name, 0.1, 0.4),)),
        group=group,
        speaker=speaker,
    )


def librispeech_folder(root, utterances):
    """Write recordings like unpacked LibriSpeech; FFmpeg recognises a format by its content."""
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
    """The clips that ship with wlk-core come first, and all words have times."""
    dataset = load_dataset("digits")

    names = [sample.id for sample in dataset.samples]
    assert list(clip_names()) == names[: len(clip_names())]
    assert all(sample.reference.words for sample in dataset.samples)
    assert dataset.normaliser == "basic"


def test_the_digits_set_is_the_same_every_time():
    """Audio and words are functions of the release."""
    first, second = (load_dataset("digits").samples[-1] for _ in range(2))

    assert first.reference == second.reference
    assert np.array_equal(next(first.audio()), next(second.audio()))


def test_a_long_stream_is_composed_of_digits():
    """It has at least the requested length, and a segment for each utterance."""
    dataset = load_dataset("digits:0.5")

    (sample,) = dataset.samples
    assert 30.0 <= sample.seconds < 40.0
    assert dataset.mode == "chapter"
    assert len(sample.reference.segments) > 1
    assert sum(map(len, sample.audio())) == round(sample.seconds * 16_000)


@pytest.mark.parametrize("minutes", ["long", "0", "-1", "nan", "1000"])
def test_an_invalid_length_is_refused(minutes):
    """The message gives the longest stream."""
    with pytest.raises(DataError, match="up to 600 minutes"):
        load_dataset(f"digits:{minutes}")


def test_librispeech_is_read_by_utterance(tmp_path):
    """Each line of a transcript is a stream with its own length."""
    dataset = load_dataset(f"librispeech:{librispeech_folder(tmp_path / 'clean', UTTERANCES)}")

    assert list(UTTERANCES) == [sample.id for sample in dataset.samples]
    assert [0.5] * 5 == [sample.seconds for sample in dataset.samples]
    assert dataset.name == "librispeech:clean"
    assert dataset.normaliser == "english"


def test_librispeech_chapters_have_half_a_second_between_utterances(tmp_path):
    """A chapter is one stream; its utterances are segments of the reference."""
    folder = librispeech_folder(tmp_path / "clean", UTTERANCES)

    first, *_ = load_dataset(f"librispeech:{folder}", mode="chapter").samples

    assert ("61-7", "ONE TWO") == (first.id, first.reference.text)
    assert [(0.0, 0.5), (1.0, 1.5)] == [(s.start, s.end) for s in first.reference.segments]
    assert sum(map(len, first.audio())) == round(1.5 * 16_000) == round(first.seconds * 16_000)


def test_a_limit_takes_the_speakers_in_turn(tmp_path):
    """The first N utterances have as many speakers as possible."""
    folder = librispeech_folder(tmp_path / "clean", UTTERANCES)

    dataset = load_dataset(f"librispeech:{folder}", limit=3)

    assert ["61-7-0000", "61-7-0001", "121-9-0000"] == [sample.id for sample in dataset.samples]
    assert dataset.name == "librispeech:clean[3 of 5]"


@pytest.mark.parametrize(("limit", "names"), [(1, "a"), (2, "ac"), (3, "abc"), (9, "abcd")])
def test_spreading_keeps_the_order(limit, names):
    """The chosen samples keep the order of the data."""
    samples = [sample("a", "1"), sample("b", "1"), sample("c", "2"), sample("d", "2")]

    assert names == "".join(sample.id for sample in spread(samples, limit))


def test_word_times_move_with_their_chapter():
    """Times of the second sample count from the start of the stream."""
    (joined,) = chaptered([sample("a", "1"), sample("b", "1")])

    assert [0.1, 1.6] == [word.start for word in joined.reference.words]


def test_gaps_can_be_reported_as_silences():
    """The gap is a pause of the same length instead of zeros."""
    (joined,) = chaptered([sample("a", "1"), sample("b", "1")], reports_pauses=True)

    assert [Pause(0.5)] == [item for item in joined.audio() if isinstance(item, Pause)]
    assert joined.seconds == 2.5


def test_a_manifest_lists_recordings_and_word_times(tmp_path):
    """Audio is read relative to the manifest, sample by sample as it was written."""
    dataset = load_dataset(f"manifest:{coded_manifest(tmp_path)}")

    first = dataset.samples[0]
    truth = coded_sample("sample-0", seed=0)
    assert truth.reference == first.reference
    assert np.array_equal(np.concatenate(list(truth.audio())), np.concatenate(list(first.audio())))


def test_the_text_of_a_manifest_may_be_its_words(tmp_path):
    """Words with times make up the text."""
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
        ("", "expected recordings in .*, got none"),
    ],
    ids=["no-json", "no-audio", "no-file", "backward-word", "empty"],
)
def test_an_invalid_line_is_named(tmp_path, line, message):
    """The message names the line, what was expected and what came."""
    write_wav(tmp_path / "a.wav", np.zeros(160, dtype=np.float32))
    path = tmp_path / "list.jsonl"
    path.write_text(f"{line}\n", encoding="utf-8")

    with pytest.raises(DataError, match=message):
        load_dataset(f"manifest:{path}")


def test_two_recordings_of_one_name_need_ids(tmp_path):
    """A sample is identified by its id alone."""
    write_wav(tmp_path / "a.wav", np.zeros(160, dtype=np.float32))
    path = tmp_path / "list.jsonl"
    path.write_text(2 * (json.dumps({"audio": "a.wav", "text": "x"}) + "\n"), encoding="utf-8")

    with pytest.raises(DataError, match="got 'a' twice"):
        load_dataset(f"manifest:{path}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("music", "expected --data digits"),
        ("librispeech:/nowhere/at/all", "which does not exist"),
        ("manifest:/nowhere.jsonl", "expected a manifest of JSON lines"),
    ],
)
def test_missing_data_is_refused(data, message):
    """The message states what to name instead."""
    with pytest.raises(DataError, match=message):
        load_dataset(data)


def test_a_folder_without_transcripts_is_refused_as_librispeech(tmp_path):
    """The message states which folder to name."""
    with pytest.raises(DataError, match="name the folder that holds the speakers"):
        load_dataset(f"librispeech:{tmp_path}")
