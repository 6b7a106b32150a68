"""LibriSpeech as it is unpacked: SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac and a .trans.txt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wlk_bench.data.sample import Sample
from wlk_bench.errors import DataError
from wlk_bench.reference import Reference
from wlk_core.audio.decode import audio_duration, decode_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["librispeech"]


def librispeech(directory: Path) -> tuple[Sample, ...]:
    """
    Return the utterances below *directory*, by speaker, chapter and number.

    Raises:
        DataError: there are no utterances, or a transcript or a recording is missing.

    """
    if not directory.is_dir():
        raise DataError(
            f"expected an unpacked LibriSpeech directory, got {directory}, which does not exist; "
            "unpack one of https://www.openslr.org/12 and name its folder"
        )
    transcripts = sorted(directory.rglob("*.trans.txt"), key=_chapter_number)
    samples = [sample for path in transcripts for sample in _chapter(path)]
    if not samples:
        raise DataError(
            f"expected LibriSpeech transcripts (*.trans.txt) below {directory}, got none; "
            "name the folder that holds the speakers, such as LibriSpeech/test-clean"
        )
    return tuple(samples)


def _chapter_number(transcript: Path) -> tuple[int, ...]:
    return tuple(
        int(part) if part.isdigit() else 0 for part in transcript.name.split(".")[0].split("-")
    )


def _chapter(transcript: Path) -> list[Sample]:
    samples: list[Sample] = []
    for line in transcript.read_text(encoding="utf-8").splitlines():
        name, _, text = line.partition(" ")
        if not name:
            continue
        path = transcript.with_name(f"{name}.flac")
        if not path.is_file():
            raise DataError(
                f"expected the recording {path}, which {transcript.name} lists; unpack it again"
            )
        speaker, chapter = [*name.split("-"), "", ""][:2]
        samples.append(
            Sample(
                id=name,
                audio=partial(decode_file, path),
                seconds=_seconds(path),
                reference=Reference(text=text.strip()),
                group=f"{speaker}-{chapter}",
                speaker=speaker,
            )
        )
    return samples


def _seconds(path: Path) -> float:
    seconds = audio_duration(path)
    if seconds is None:
        raise DataError(f"expected a length in the header of {path}; unpack it again")
    return seconds
