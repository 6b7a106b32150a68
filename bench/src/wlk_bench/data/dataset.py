"""Data sets as the command line names them: digits, librispeech:DIRECTORY, manifest:FILE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from wlk_bench.data.digits import digits, long_digits
from wlk_bench.data.recordings import librispeech, manifest
from wlk_bench.data.sample import join_chapters, sample_evenly
from wlk_bench.errors import DataError

if TYPE_CHECKING:
    from wlk_bench.data.sample import Sample

Mode = Literal["utterance", "chapter", "single-shot"]
MAX_MINUTES = 600.0  #: in one composed stream: ten hours


@attrs.frozen(kw_only=True)
class Dataset:
    """
    Samples, and the normaliser with which their text is compared.

    `name` identifies the streams: results with the same name and mode have the same streams, and
    only such results are comparable.  `missing` are the names of recordings that were not found.
    """

    name: str
    mode: Mode
    samples: tuple[Sample, ...]
    language: str | None
    normaliser: str
    missing: tuple[str, ...] = ()


def load_dataset(
    text: str, *, mode: Mode = "utterance", limit: int | None = None, reports_pauses: bool = False
) -> Dataset:
    """
    Return the data set that *text* names.

    "digits:MINUTES" is one long stream, whatever the mode.
    `limit`, at least 1, selects that many streams, spread over the speakers; it counts chapters
    after their utterances have been joined.  With `reports_pauses` the gaps in them are silences.

    Raises:
        DataError: the kind is unknown, or the data cannot be used.

    """
    kind, _, path = text.partition(":")
    language: str | None = "en"
    normaliser = "basic"
    missing: tuple[str, ...] = ()
    if kind == "digits" and not path:
        # The English normaliser would turn "four two" into "42".
        samples, name = digits(), "digits"
    elif kind == "digits":
        samples, name = long_digits(_minutes(path)), text
        mode = "chapter"
    elif kind == "librispeech" and path:
        folder = Path(path).expanduser()
        samples, missing = librispeech(folder)
        name = f"librispeech:{folder.resolve().name}"
        normaliser = "english"
    elif kind == "manifest" and path:
        file = Path(path).expanduser()
        samples, name = manifest(file), f"manifest:{file.name}"
        language = None
    else:
        raise DataError(
            "expected --data digits, digits:MINUTES, librispeech:DIRECTORY or manifest:FILE; "
            f"got {text!r}"
        )
    if mode == "chapter":
        samples = join_chapters(samples, reports_pauses=reports_pauses)
        if reports_pauses:
            name += ", pauses as silences"
    chosen = sample_evenly(samples, limit)
    if len(chosen) < len(samples):
        name = f"{name}[{len(chosen)} of {len(samples)}]"
    return Dataset(
        name=name,
        mode=mode,
        samples=chosen,
        language=language,
        normaliser=normaliser,
        missing=missing,
    )


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= MAX_MINUTES:
        raise DataError(
            f"expected --data digits:MINUTES with up to {MAX_MINUTES:g} minutes, got {text!r}"
        )
    return minutes
