"""A data set as the command line names it: digits, librispeech:DIRECTORY, manifest:FILE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from wlk_bench.data.sample import chaptered, spread
from wlk_bench.errors import DataError

if TYPE_CHECKING:
    from wlk_bench.data.sample import Sample

__all__ = ["MODES", "Dataset", "Mode", "load_dataset"]

Mode = Literal["utterance", "chapter", "single-shot"]
MOST_MINUTES = 600.0  #: of one composed stream: ten hours
MODES: tuple[Mode, ...] = ("utterance", "chapter", "single-shot")


@attrs.frozen(kw_only=True)
class Dataset:
    """
    Samples and how their texts are to be compared.

    `name` says what was measured, for a result to be comparable with another: two results of
    one name and mode have the same streams.
    """

    name: str
    mode: Mode
    samples: tuple[Sample, ...]
    language: str | None
    normaliser: str


def load_dataset(
    text: str, *, mode: Mode = "utterance", limit: int | None = None, tells_pauses: bool = False
) -> Dataset:
    """
    Return the data set that *text* names.

    "digits:MINUTES" is one long stream, whatever the mode.
    `limit` takes that many streams, spread over the speakers.  Chapters are whole: their
    utterances are joined first.  With `tells_pauses` the gaps between them are told as silences.

    Raises:
        DataError: there is no such kind, or the data cannot be used.

    """
    kind, _, place = text.partition(":")
    language: str | None = "en"
    normaliser = "english"
    if kind == "digits" and not place:
        from wlk_bench.data.digits import digits  # noqa: PLC0415 -- decodes the clips

        # The English normaliser would join "four two" to "42".
        samples, normaliser, name = digits(), "basic", "digits"
    elif kind == "digits":
        from wlk_bench.data.digits import long_digits  # noqa: PLC0415 -- decodes the clips

        minutes = _minutes(place)
        samples, normaliser, name, mode = long_digits(minutes), "basic", text, "chapter"
    elif kind == "librispeech" and place:
        from wlk_bench.data.librispeech import librispeech  # noqa: PLC0415 -- brings av

        folder = Path(place).expanduser()
        samples, name = librispeech(folder), f"librispeech:{folder.resolve().name}"
    elif kind == "manifest" and place:
        from wlk_bench.data.manifest import manifest  # noqa: PLC0415 -- brings av

        path = Path(place).expanduser()
        samples, name, language, normaliser = manifest(path), f"manifest:{path.name}", None, "basic"
    else:
        raise DataError(
            "expected --data digits, digits:MINUTES, librispeech:DIRECTORY or manifest:FILE; "
            f"got {text!r}"
        )
    if limit is not None and limit < 1:
        raise DataError(f"expected --limit of at least 1, got {limit}")
    if mode == "chapter":
        samples = chaptered(samples, tells_pauses=tells_pauses)
        name += ", pauses told" * tells_pauses
    chosen = spread(samples, limit)
    if len(chosen) < len(samples):
        name = f"{name}[{len(chosen)} of {len(samples)}]"
    return Dataset(
        name=name,
        mode=mode,
        samples=chosen,
        language=language,
        normaliser=normaliser,
    )


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= MOST_MINUTES:
        raise DataError(
            f"expected --data digits:MINUTES with up to {MOST_MINUTES:g} minutes, got {text!r}"
        )
    return minutes
