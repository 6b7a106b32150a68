"""Find a checkpoint and read the configs beside its weights: wlk.json, generation_config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from wlk_core.models import locate
from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_frameworks.checkpoints import Index, read_json_table
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer as HfTokenizer

    from wlk_core.plugins import BackendSpec
    from wlk_whisper.engine.features import AudioContext

# A longer buffer decodes the same audio more often, a shorter one gives less context.  A cut leaves
# half of it: leaving only the newest words gave 40 % more errors.  At ticks of 0.5 s, 6.6 s costs
# 12 encoder frames per new one, as 8 s does at 0.6 s, with as many errors: docs/whisper.md.
BUFFER_SECONDS = 6.6

Task = Literal["transcribe", "translate"]


class GenerationConfig(Struct, frozen=True, kw_only=True):
    """
    The entries of generation_config.json that decoding uses; None if the file lacks them.

    transformers writes the file for every model, and converters to other formats often copy it.
    """

    alignment_heads: tuple[tuple[Index, Index], ...] | None = None  #: (layer, head), both from 0
    begin_suppress_tokens: tuple[Index, ...] | None = None

    @classmethod
    def read(cls, directory: Path) -> GenerationConfig:
        """Return the config in *directory*, all None without a file; see `read_json_table`."""
        return msgspec.convert(read_json_table(directory / "generation_config.json", cls), cls)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """
    Limits and defaults of a checkpoint, declared in the ``wlk.json`` of its directory.

    None leaves the choice to the backend: all languages and tasks of Whisper, and the backend's
    own dtype and number of threads.
    """

    name: str = ""  #: a size, a repository or a directory
    languages: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1)] | None = None
    dtype: str | None = None
    #: Whether it was trained on windows shorter than 30 s.
    takes_shorter_input: bool = msgspec.field(default=False, name="shorter_input")
    buffer_seconds: Annotated[float, Meta(ge=2, le=25)] = BUFFER_SECONDS
    cpu_threads: Annotated[int, Meta(ge=0, le=1024)] | None = None

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """Return the config in *directory*, defaults without a file; see `read_json_table`."""
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
        Return *audio_context*, the option's value; for None, the one that suits the checkpoint.

        Raises:
            OptionError: *audio_context* is "fitted", and the checkpoint would invent words in short
                windows because it was trained on 30 s only.

        """
        if audio_context == "fitted" and not self.takes_shorter_input:
            raise OptionError(
                f"the model {self.name} was trained on windows of 30 s and invents words in "
                "shorter ones; leave audio_context=fitted out, or choose padded"
            )
        return audio_context or ("fitted" if self.takes_shorter_input else "padded")


def find_model(spec: BackendSpec, model: str, *, cache_dir: str | None) -> tuple[Path, Checkpoint]:
    """
    Return the directory of *model* and what it declares; `digits` is in transformers' format.

    Raises:
        ModelNotFoundError: the model is missing, or wlk-whisper-digits is not installed.

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
