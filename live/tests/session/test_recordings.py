"""Transcribe whole recordings, one or many at a time."""

from __future__ import annotations

import io
from threading import Barrier
import wave

import attrs
import numpy as np
import pytest
from session_events import BackendOf

from wlk_conformance.testing import silence
from wlk_conformance.testing.annotators import DigitFilter, ScriptedDiarizer
from wlk_core import AudioFormatError, OptionError
from wlk_core.tokens import ASRToken, Silence, SpeakerSpan
from wlk_live.captions.segments import Segment, segments_from_tokens
from wlk_live.session import Transcription, transcribe, transcribe_many
from wlk_live.vad import GateParameters


def run(processor, audio, **options):
    """Call transcribe."""
    return transcribe(BackendOf(processor), audio, **options)


def test_an_array_becomes_text_words_and_segments(open_coded, speech, words):
    """A transcription holds the text, its words with their times, and captions."""
    result = run(open_coded(), speech, vad=False)

    assert result.text == "".join(word.text for word in words).strip()
    assert [word.start for word in words] == pytest.approx([word.start for word in result.words])
    assert result.text.split() == " ".join(segment.text for segment in result.segments).split()
    assert result.language == "en"
    assert result.duration == len(speech) / 16_000
    assert result.silences == ()


def test_a_file_gives_what_its_samples_give(open_coded, speech, tmp_path):
    """A path, a path as a string, a binary file object and bytes are decoded."""
    path = tmp_path / "speech.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(4)  # coded audio needs 23 bits
        file.setframerate(16_000)
        file.writeframes((speech.astype(np.float64) * 2**31).astype("<i4").tobytes())
    expected = run(open_coded(), speech, vad=False)

    assert run(open_coded(), path, vad=False) == expected
    assert run(open_coded(), str(path), vad=False) == expected
    assert run(open_coded(), io.BytesIO(path.read_bytes()), vad=False) == expected
    assert run(open_coded(), path.read_bytes(), vad=False) == expected


def test_an_array_of_another_rate_is_resampled(open_coded):
    """Resampling keeps the duration."""
    audio = np.zeros(44_100, np.float32)

    assert run(open_coded(), audio, vad=False, sample_rate=44_100).duration == 1.0


@pytest.mark.slow
def test_pauses_are_left_out_by_default(open_coded):
    """A recording without speech has one silence, no words and no engine call."""
    result = run(open_coded(fail_at={1}), silence(5.0), language="de")

    assert [(pause.start, pause.end) for pause in result.silences] == [(0.0, 5.0)]
    assert result.text == ""
    assert result.words == ()
    assert result.duration == 5.0
    assert result.language == "de"


@pytest.mark.parametrize(
    ("audio", "options", "message"),
    [
        ([0.0, 0.1], {}, "expected a path, a binary file or a numpy array, got list"),
        (np.zeros(10, dtype=np.int16), {}, "expected float32 samples, got int16"),
        (np.zeros(10, dtype=np.float32), {"sample_rate": 5}, "from 8000 to 192000 Hz, got 5"),
        ("talk.wav", {"vad": "loud"}, "expected `vad` as True, False or GateParameters"),
        ("talk.wav", {"sample_rate": 44_100}, "a file states its own"),
        ("talk.wav", {"diarizer": "who"}, r"load_annotator\('diarizer', 'who'\)"),
        ("talk.wav", {"text_filters": ["x"]}, r"load_annotator\('text-filter', 'x'\)"),
    ],
)
def test_a_wrong_argument_is_refused_before_a_stream_is_opened(audio, options, message):
    """The error states what was expected."""
    with pytest.raises((AudioFormatError, OptionError), match=message):
        run(pytest.fail, audio, **options)


def test_a_transcription_writes_subtitles_and_json():
    """SubRip, WebVTT and plain data are the same as those of the command line."""
    result = Transcription(
        text="One two.",
        words=(ASRToken(0.5, 0.9, " One", 0.98765, None, "en"), ASRToken(1.0, 1.25001, " two.")),
        segments=(Segment(0.5, 1.25001, "One two."),),
        silences=(Silence(0.0, 0.4),),
        language="en",
        duration=1.5,
    )
    one = {"start": 0.5, "end": 0.9, "text": " One", "probability": 0.9877, "language": "en"}
    two = {"start": 1.0, "end": 1.25, "text": " two.", "probability": None, "language": None}

    assert result.to_srt() == "1\n00:00:00,500 --> 00:00:01,300\nOne two.\n\n"
    assert result.to_vtt() == "WEBVTT\n\n00:00:00.500 --> 00:00:01.300\nOne two.\n\n"
    assert result.to_dict() == {
        "language": "en",
        "duration": 1.5,
        "text": "One two.",
        "tokens": [token | {"speaker": None} for token in (one, two)],
        "segments": [{"start": 0.5, "end": 1.25, "text": "One two.", "speaker": None}],
        "silences": [{"start": 0.0, "end": 0.4}],
    }


def test_the_size_of_captions_and_the_names_in_them_are_a_choice():
    """Every format has the same names, and "Speaker 1" without them."""
    words = tuple(ASRToken(i / 2, i / 2 + 0.4, f" {'ab'[i] * 9}", speaker=i) for i in range(2))
    result = Transcription(
        text="", words=words, segments=segments_from_tokens(words), silences=(), language="en",
        duration=2.0,
    )  # fmt: skip
    names = ["Anna", "Ben"]
    texts = [f(speaker_names=names) for f in (result.to_srt, result.to_vtt)]
    record = result.to_dict(speaker_names=names)

    assert "Anna: aaaaaaaaa" in texts[0]
    assert "<v Ben>bbbbbbbbb" in texts[1]
    assert [each["speaker"] for each in record["tokens"] + record["segments"]] == names * 2
    assert [each["speaker"] for each in result.to_dict()["tokens"]] == ["Speaker 1", "Speaker 2"]
    assert "Speaker 1: aaaaaaaaa" in result.to_srt(max_line_width=12)


def test_the_length_of_a_pause_is_a_choice(open_coded, speech, detector, monkeypatch):
    """GateParameters given as `vad` choose which pauses are left out."""
    monkeypatch.setattr("wlk_live.vad.gate.SileroDetector", lambda: detector)
    audio = np.concatenate([speech, np.zeros(4_800, np.float32), speech])
    short = GateParameters(silence_seconds=0.5, pre_roll=0.1)
    by_default, chosen = (run(open_coded(), audio, vad=vad) for vad in (True, short))

    assert by_default.silences == ()
    assert len(chosen.silences) == 2  # between the two, and at the end


def test_a_diarizer_adds_speakers_and_changes_no_word(open_coded, speech):
    """It is reset for each recording, and left open for the next one."""
    half = len(speech) / 32_000
    diarizer = ScriptedDiarizer([SpeakerSpan(0, 0.0, half), SpeakerSpan(1, half, 2 * half)])
    plain = run(open_coded(), speech, vad=False)
    results = [run(open_coded(), speech, vad=False, diarizer=diarizer) for _ in range(2)]
    speakers = [word.speaker for word in results[0].words]

    assert results[1] == results[0]
    assert [(each.start, each.text) for each in results[0].words] == [
        (each.start, each.text) for each in plain.words
    ]
    assert list(dict.fromkeys(speakers)) == [0, 1]
    assert [each.speaker for each in results[0].segments] == sorted(
        each.speaker for each in results[0].segments
    )
    assert "Ann: " in results[0].to_srt(speaker_names=["Ann"])
    assert not diarizer.is_closed


class Batching(BackendOf):
    """Opens a stream for each recording, and declares that two are batched."""

    spec = attrs.evolve(BackendOf.spec, capabilities={"batching"}, max_concurrent_calls=2)


def test_many_recordings_give_what_each_gives_alone(open_coded, speech):
    """The results come in the order of the recordings, however long each takes."""
    audios = [speech, speech[:40_000], np.zeros(0, np.float32), speech[:80_000]]
    alone = [run(open_coded(), audio, vad=False) for audio in audios]

    for backend in (Batching(open_coded), BackendOf(open_coded)):
        assert list(transcribe_many(backend, iter(audios), vad=False)) == alone


def test_a_recording_that_fails_costs_no_other(open_coded, speech, tmp_path):
    """Its error stands in its place."""
    missing = tmp_path / "missing.wav"
    audios = [speech, missing, speech.astype(np.float64), speech]
    first, second, third, last = transcribe_many(Batching(open_coded), audios, vad=False)

    assert first == last == run(open_coded(), speech, vad=False)
    assert isinstance(second, FileNotFoundError)
    assert isinstance(third, AudioFormatError)


@pytest.mark.parametrize(("kind", "most"), [(Batching, 2), (BackendOf, 1)], ids=["two", "one"])
def test_as_many_streams_are_open_as_the_backend_batches(open_coded, speech, kind, most):
    """An engine without batching has one at a time: its calls would only wait for each other."""
    together = Barrier(most)  # which opens for this many threads only

    def open_together():
        together.wait(timeout=60)
        return open_coded()

    results = list(transcribe_many(kind(open_together), [speech] * 4, vad=False))

    assert [result.text for result in results] == [results[0].text] * 4


def test_closing_it_stops_the_recordings_in_progress(open_coded, speech, monkeypatch):
    """A program that leaves the loop does not wait for an hour of audio."""

    def endless(_path):
        while True:
            yield np.zeros(16_000, np.float32)

    monkeypatch.setattr("wlk_live.session.recordings.decode_file", endless)
    results = transcribe_many(Batching(open_coded), [speech, "endless.wav"], vad=False)

    assert next(results).text
    results.close()


def test_each_recording_in_progress_has_a_diarizer_of_its_own(open_coded, speech):
    """They are opened when they are needed and closed at the end."""
    opened = []

    def open_diarizer():
        opened.append(ScriptedDiarizer([SpeakerSpan("ann", 0.0, 60.0)]))
        return opened[-1]

    results = list(
        transcribe_many(Batching(open_coded), [speech] * 5, vad=False, open_diarizer=open_diarizer)
    )

    assert {word.speaker for result in results for word in result.words} == {"ann"}
    assert 1 <= len(opened) <= 2
    assert all(diarizer.is_closed for diarizer in opened)


def test_each_recording_in_progress_has_text_filters_of_its_own(open_coded, speech):
    """Their words are those of one call, with the words as spoken; they are closed at the end."""
    opened = []

    def open_filters():
        opened.append(DigitFilter())
        return opened[-1:]

    (one, *others) = transcribe_many(
        Batching(open_coded), [speech] * 3, vad=False, open_text_filters=open_filters
    )
    single = run(open_coded(), speech, vad=False, text_filters=[DigitFilter()])

    assert one.to_dict() == single.to_dict() == others[0].to_dict() == others[1].to_dict()
    assert one.text == "01234567890123456789"
    assert one.words[0].spoken == run(open_coded(), speech, vad=False).words
    assert all(each.is_closed for each in opened)


def test_what_would_fail_for_every_recording_is_raised(open_coded, speech):
    """A wrong option, and one recording in place of a list."""
    with pytest.raises(OptionError, match="chunk_seconds"):
        list(transcribe_many(Batching(open_coded), [speech], chunk_seconds=0))
    for one in ("talk.wav", speech):
        with pytest.raises(AudioFormatError, match="call transcribe for it"):
            list(transcribe_many(Batching(open_coded), one))
