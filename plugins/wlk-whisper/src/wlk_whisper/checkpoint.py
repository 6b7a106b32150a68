"""The settings beside the weights of a checkpoint: its wlk.json and its generation_config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from wlk_core.models import Index, locate, read_json_table
from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer as HfTokenizer

    from wlk_core.plugins import BackendSpec
    from wlk_whisper.engine.features import AudioContext

# A longer buffer is decoded more often, a shorter one gives less context.  Half of it stays when it
# is cut: where a cut left the newest words only, two in five more were wrong.  With ticks of
# 0.5 s this is what 12 encoder frames for each new one allow, for as many errors: docs/whisper.md.
BUFFER_SECONDS = 6.6

Task = Literal["transcribe", "translate"]


class GenerationConfig(Struct, frozen=True, kw_only=True):
    """
    The entries of generation_config.json that decoding uses; None where the file has none.

    transformers writes the file for every model, and converters to other formats often copy it.
    """

    alignment_heads: tuple[tuple[Index, Index], ...] | None = None  #: (layer, head), both from 0
    begin_suppress_tokens: tuple[Index, ...] | None = None

    @classmethod
    def read(cls, directory: Path) -> GenerationConfig:
        """Return the config in *directory*, empty where there is none; see `read_json_table`."""
        return msgspec.convert(read_json_table(directory / "generation_config.json", cls), cls)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """
    Limits and defaults of a checkpoint; a ``wlk.json`` in its directory declares them.

    None leaves the choice to the backend: all languages and tasks of Whisper, its own arithmetic
    and number of threads.
    """

    name: str = ""  #: a size, a repository or a directory
    languages: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1)] | None = None
    dtype: str | None = None
    #: It was trained on windows shorter than 30 s.
    takes_shorter_input: bool = msgspec.field(default=False, name="shorter_input")
    buffer_seconds: Annotated[float, Meta(ge=2, le=25)] = BUFFER_SECONDS
    cpu_threads: Annotated[int, Meta(ge=0, le=1024)] | None = None

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """Return the settings of *directory*, the defaults where it has none; see `read_json`."""
        table = read_json_table(directory / "wlk.json", cls)
        return msgspec.convert(table | {"name": name}, cls)

    def check(
        self, *, language: str | None, task: str, is_multilingual: bool, hf_tokenizer: HfTokenizer
    ) -> None:
        """
        Check that this checkpoint can decode a language and a task.

        Raises:
            OptionError: the checkpoint was not trained for the language or the task.

        """
        languages = self.languages if is_multilingual else ("en",)
        tasks = self.tasks if is_multilingual else ("transcribe",)
        if language is not None and languages is not None and language not in languages:
            raise OptionError(
                f"the model {self.name} recognises {', '.join(languages)} only, not {language!r}; "
                "choose another model or leave the language out"
            )
        # Without a token (yue, before large-v3) the language cannot be forced on the decoder.
        is_forced = language is not None and is_multilingual
        if is_forced and hf_tokenizer.token_to_id(f"<|{language}|>") is None:
            raise OptionError(
                f"the model {self.name} has no token for the language {language!r}; "
                "choose another model or leave the language out"
            )
        if tasks is not None and task not in tasks:
            raise OptionError(
                f"the model {self.name} was trained to {' and '.join(tasks)} only; "
                f"choose a multilingual model to {task}"
            )

    def context(self, audio_context: AudioContext | None) -> AudioContext:
        """
        Return the window of the option `audio_context`, whose None leaves it to the checkpoint.

        Raises:
            OptionError: windows are to be fitted and the checkpoint was trained on 30 s only, so
                that it would invent words.

        """
        if audio_context == "fitted" and not self.takes_shorter_input:
            raise OptionError(
                f"the model {self.name} was trained on windows of 30 s and invents words in "
                "shorter ones; leave audio_context=fitted out, or choose padded"
            )
        return audio_context or ("fitted" if self.takes_shorter_input else "padded")


def find_model(spec: BackendSpec, model: str, *, cache_dir: str | None) -> tuple[Path, Checkpoint]:
    """
    Return the directory of *model*, and its settings; the digits are in transformers' format.

    Raises:
        ModelNotFoundError: the model is missing, or the distribution of the digits.

    """
    bundled = {}
    if model == DIGITS:
        try:
            from wlk_whisper_digits import checkpoint_directory  # noqa: PLC0415 -- may be missing
        except ImportError as error:
            raise ModelNotFoundError(
                "the model digits of this backend is in wlk-whisper-digits, which is not "
                "installed; install it with: pip install wlk-whisper-digits"
            ) from error
        bundled[DIGITS] = checkpoint_directory()
    directory = locate(model, spec=spec, bundled=bundled, cache_dir=cache_dir)
    return directory, Checkpoint.read(directory, name=model)
