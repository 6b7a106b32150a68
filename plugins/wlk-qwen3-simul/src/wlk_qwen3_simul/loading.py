"""What both engines do around the loading of weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from wlk_qwen3_simul.alignment_heads import FILE, Row, load_heads, parse_heads
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.sizes import DIGITS, MODELS
from wlk_qwen3_simul.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from wlk_qwen3_simul.alignment_heads import AlignmentHeads

__all__ = ["BUNDLED", "find_heads", "read_beside"]

LISTS = tuple(f"{row}:" for row in get_args(Row))  # how a list of heads begins
BUNDLED = {DIGITS: Path(__file__).parent / "digits"}


def read_beside(directory: Path, *, name: str) -> tuple[Checkpoint, Vocabulary]:
    """
    Return what lies beside the weights in *directory* of the model *name*.

    Raises:
        ModelNotFoundError: the tokenizer is not there, or is none of Qwen3-ASR.

    """
    return Checkpoint.read(directory, name=name), Vocabulary.read(directory)


def find_heads(
    asked: str | None, directory: Path, *, name: str, layers: int, heads: int
) -> AlignmentHeads:
    """
    Return the alignment heads: those asked for, else the model's own, else the published ones.

    Args:
        asked: the option: a heads file, or a list.
        directory: of the model, which may hold a heads file of its own.
        name: what the model was asked for by: a size, a repository or a directory.
        layers: of the decoder.
        heads: in each of them.

    Raises:
        OptionError: nobody knows them, or they are not of this decoder.

    """
    model = MODELS.get(name, name)
    source: str | Path = directory if (directory / FILE).is_file() else model
    if asked is not None:
        file = Path(asked).expanduser()
        if asked.startswith(LISTS) or not (file.suffix == ".json" or _is_there(file)):
            return parse_heads(asked, layers=layers, heads=heads)
        source = file
    return load_heads(source, layers=layers, heads=heads, model=model)


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a list of many heads is longer than the name of a file can be
        return False
