"""
Recordings on disk: an unpacked LibriSpeech, and manifests.

LibriSpeech is SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac and a .trans.txt for each chapter.  A
manifest is JSON lines, one recording each:

    {"audio": "talk.flac", "text": "one two", "words": [["one", 0.31, 0.48], ...]}

`audio` is relative to the manifest; `words` (text, start, end in seconds), `id`, `group`
(recordings of one chapter) and `speaker` are optional.  A word may also be an object with `text`,
`start` and `end`, as in manifests of wlk-qwen3-simul.  Annotators are compared with `turns`
(speaker, start, end), `ends` (by default the ends of the turns) and `translation`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
import json
import logging
from typing import TYPE_CHECKING, Any

from wlk_bench.data.sample import Sample
from wlk_bench.errors import DataError
from wlk_bench.reference import Reference, ReferenceTurn, ReferenceWord
from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio.decode import audio_duration, decode_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

_SHAPE = '{"audio": "file", "text": "words"}'
_ROUNDING = 0.1  # seconds that the last end may exceed the length of the audio


def librispeech(directory: Path) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """
    Return the utterances below *directory*, by speaker, chapter and number, and what is missing.

    The latter are the names of utterances with a transcript and no recording, as in an archive that
    was unpacked in part; a warning counts them.

    Raises:
        DataError: there are no utterances.

    """
    transcripts = sorted(directory.rglob("*.trans.txt"), key=_chapter_number)
    listed = [utterance for path in transcripts for utterance in _chapter(path)]
    missing = tuple(path.stem for path, _ in listed if not path.is_file())
    samples = [_utterance(path, text) for path, text in listed if path.stem not in set(missing)]
    if samples and missing:
        logger.warning(
            "%d of %d recordings are missing below %s and left out, %s first",
            len(missing),
            len(listed),
            directory,
            missing[0],
        )
    if not samples:
        raise DataError(
            "expected LibriSpeech transcripts (*.trans.txt) and their recordings below "
            f"{directory}, got none; unpack a set from https://www.openslr.org/12 and name its "
            "folder, such as LibriSpeech/test-clean"
        )
    return tuple(samples), missing


def _chapter_number(transcript: Path) -> tuple[int, ...]:
    parts = transcript.name.split(".")[0].split("-")
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


def _chapter(transcript: Path) -> list[tuple[Path, str]]:
    """Return the recordings and texts that a transcript lists."""
    lines = transcript.read_text(encoding="utf-8").splitlines()
    utterances = [line.partition(" ")[::2] for line in lines]
    return [(transcript.with_name(f"{name}.flac"), text) for name, text in utterances if name]


def _utterance(path: Path, text: str) -> Sample:
    speaker, _, rest = path.stem.partition("-")
    return Sample(
        id=path.stem,
        audio=partial(decode_file, path),
        seconds=_seconds(path),
        reference=Reference(text=text.strip()),
        group=f"{speaker}-{rest.partition('-')[0]}",
        speaker=speaker,
    )


def manifest(path: Path) -> tuple[Sample, ...]:
    """
    Return the recordings that a manifest lists, in order.

    Raises:
        DataError: the file is missing or empty, or a line is malformed.

    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"expected a manifest of JSON lines, got {path}: {error}") from error
    samples = [_sample(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not samples:
        raise DataError(f"expected recordings in {path}, got none; write lines such as {_SHAPE}")
    ids = [sample.id for sample in samples]
    if duplicates := sorted({name for name in ids if ids.count(name) > 1}):
        raise DataError(
            f"expected a unique id for each recording of {path}, got {duplicates[0]!r} twice; "
            'give each line its own "id"'
        )
    return tuple(samples)


def _sample(path: Path, number: int, line: str) -> Sample:
    where = f"line {number} of {path}"
    with _reading(_SHAPE, where, line):
        entry: dict[str, Any] = json.loads(line)
        audio = path.parent / entry["audio"]
        spans = entry.get("words") or ()
    with _reading('"words" as [word, start, end] in seconds', where, spans):
        words = [_word(span) for span in spans]
    text = str(entry.get("text") or " ".join(word.text for word in words))
    spans = entry.get("turns") or ()
    with _reading('"turns" as [speaker, start, end] in seconds', where, spans):
        turns = [ReferenceTurn(str(name), float(start), float(end)) for name, start, end in spans]
    times = entry.get("ends") or [turn.end for turn in turns]
    with _reading('"ends" as seconds', where, times):
        ends = tuple(float(time) for time in times)
    if not audio.is_file():
        raise DataError(f"expected the recording {audio}, which {where} names; correct its path")
    seconds = _seconds(audio)
    if outside := [end for end in ends if not 0 <= end <= seconds + _ROUNDING]:
        raise DataError(f"expected ends from 0 to {seconds:g} s in {where}, got {outside[0]:g} s")
    return Sample(
        id=str(entry.get("id") or audio.stem),
        audio=partial(decode_file, audio),
        seconds=seconds,
        reference=Reference(text=text, words=tuple(words)),
        group=str(entry.get("group") or "all"),
        speaker=str(entry.get("speaker") or ""),
        turns=tuple(turns),
        ends=ends,
        translation=str(entry.get("translation") or ""),
    )


def _word(span: Any) -> ReferenceWord:
    is_table = isinstance(span, dict)
    word, start, end = (span["text"], span["start"], span["end"]) if is_table else span
    return ReferenceWord(str(word), float(start), float(end))


@contextmanager
def _reading(expected: str, where: str, got: object) -> Iterator[None]:
    """Turn a failure to read *got* into an error that names the line and the expected form."""
    try:
        yield
    except DataError as error:  # a span that is out of order
        raise DataError(f"{where}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"expected {expected} in {where}, got {str(got)[:60]!r}") from error


def _seconds(path: Path) -> float:
    """Return the length of a recording, decoding it if its header has no length."""
    seconds = audio_duration(path)
    return sum(map(len, decode_file(path))) / SAMPLE_RATE if seconds is None else seconds
