"""What a checkpoint declares in wlk.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from wlk_frameworks.checkpoints import read_json_table
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.models import DIGITS

BUNDLED = {DIGITS: Path(__file__).parent / "digits"}
MANIFEST = "wlk.json"
BUFFER_SECONDS = 12.0  # a closed window of 8 s as context, and an open one
MIN_SECONDS, MAX_SECONDS = 8.0, 25.0  # one window, and the core's maximum of buffer_seconds
_Language = Annotated[str, Meta(pattern=f"^({'|'.join(LANGUAGES)})$")]


class Checkpoint(Struct, frozen=True, kw_only=True):
    """
    The name and directory of a checkpoint, and what its ``wlk.json`` declares.

    Attributes:
        name: a size, a repository or a directory.
        directory: where its files are.
        languages: those it was trained for; None for all languages of Qwen3-ASR.
        dtype: the number format it needs, its `compute_type`.
        buffer_seconds: the buffer length at which it is most accurate.

    """

    name: str = ""
    directory: Path = Path()
    languages: Annotated[tuple[_Language, ...], Meta(min_length=1)] | None = None
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = msgspec.field(
        default="auto", name="compute_type"
    )
    buffer_seconds: Annotated[float, Meta(ge=MIN_SECONDS, le=MAX_SECONDS)] = BUFFER_SECONDS

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """
        Read the wlk.json in *directory*; each of its fields is optional.

        Raises:
            ModelNotFoundError: wlk.json is damaged, or has an invalid value.

        """
        checkpoint = msgspec.convert(read_json_table(directory / MANIFEST, cls), cls)
        return msgspec.structs.replace(checkpoint, name=name, directory=directory)
