"""Read the tokenizer.json of a Whisper, and compare it with the other files of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, convert
from tokenizers import Tokenizer as HfTokenizer

from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_frameworks.checkpoints import Index, read_json, read_json_table, read_limited
from wlk_whisper.models import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_REMEDY = (
    f"pull the model again, or copy the {TOKENIZER_FILE} of the model it was made from into its "
    "directory"
)
SOT, EOT, NO_TIMESTAMPS = "<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"
# Of the special tokens a config suppresses these, and no language and no timestamp.
SUPPRESSED_TOKENS = (
    *(SOT, "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"),
    *("<|nospeech|>", "<|nocaptions|>"),
)
# The vocabularies of OpenAI's models, English-only, multilingual and that since large-v3, end with
# <|notimestamps|> and the timestamps from 0 to 30 s.
ENGLISH_ROWS = 51864
PUBLISHED_ROWS = (ENGLISH_ROWS, 51865, 51866)
TIMESTAMPS = 1501


class _TokenIds(Struct):
    """The entries of config.json and generation_config.json that give ids of special tokens."""

    lang_to_id: dict[str, Index] | None = None
    task_to_id: dict[str, Index] | None = None
    no_timestamps_token_id: Index | None = None
    prev_sot_token_id: Index | None = None
    decoder_start_token_id: Index | None = None
    suppress_tokens: list[int] | None = None
    lang_ids: list[Index] | None = None  # this and the next are CTranslate2's
    suppress_ids: list[int] | None = None

    def by_token(self) -> Iterator[tuple[str, int]]:
        """Yield tokens and their ids."""
        yield from (self.lang_to_id or {}).items()
        for task, token in (self.task_to_id or {}).items():
            yield f"<|{task}|>", token
        for text, single in (
            (NO_TIMESTAMPS, self.no_timestamps_token_id),
            ("<|startofprev|>", self.prev_sot_token_id),
            (SOT, self.decoder_start_token_id),
        ):
            if single is not None:
                yield text, single


def read_vocabulary(directory: Path) -> tuple[str, Sequence[str]]:
    """
    Return the file of a CTranslate2 model that lists its tokens, and these; none without a file.

    Raises:
        ModelNotFoundError: the file is damaged.

    """
    name = "vocabulary.json"
    tokens: list[str] | None = read_json(directory / name, list[str], remedy=TOKENIZER_REMEDY)
    if tokens is None:
        name = "vocabulary.txt"  # that of older converters
        content = read_limited(directory / name, remedy=TOKENIZER_REMEDY) or b""
        tokens = content.decode("utf-8", errors="replace").split("\n")[:-1]
    return name, tokens


def read_tokenizer(directory: Path, *, n_vocab: int) -> HfTokenizer:
    """
    Return the tokenizer in *directory*, for a Whisper whose decoder has *n_vocab* rows.

    Raises:
        ModelNotFoundError: the file is missing or is not a tokenizer, it lacks a token that begins
            or ends a transcript, the decoder has no row for such a token, or another file of the
            model gives a token another id.

    """
    path = directory / TOKENIZER_FILE
    content = read_limited(path, remedy=TOKENIZER_REMEDY)
    if content is None:
        raise ModelNotFoundError(f"{path} is missing; {TOKENIZER_REMEDY}")
    try:
        # From a file, tokenizers raises a bare Exception; from bytes, a ValueError.
        hf_tokenizer = HfTokenizer.from_buffer(content)
    except ValueError as error:
        raise ModelNotFoundError(
            f"{path} is not a tokenizer: {one_line(str(error))}; {TOKENIZER_REMEDY}"
        ) from error
    for text in (SOT, EOT, NO_TIMESTAMPS):
        token = hf_tokenizer.token_to_id(text)
        if token is None or token >= n_vocab:
            fault = "is missing" if token is None else f"is {token}, but there are {n_vocab} rows"
            raise _misfit(directory, "the model", f"the token {text} {fault}")
    check_token_ids(hf_tokenizer, directory, n_vocab=n_vocab)
    return hf_tokenizer


def check_token_ids(hf_tokenizer: HfTokenizer, directory: Path, *, n_vocab: int) -> None:
    """
    Compare a tokenizer with the ids that the other files of the model in *directory* give.

    Whispers differ in their number of languages, which shifts the ids of all later special tokens:
    with another model's tokenizer, speech would be translated instead of transcribed.

    Raises:
        ModelNotFoundError: a token has another id, or a file cannot be read.

    """
    for name in ("generation_config.json", "config.json"):
        path = directory / name
        declared = convert(read_json_table(path, _TokenIds, remedy=TOKENIZER_REMEDY), _TokenIds)
        for text, token in declared.by_token():
            _check_token(hf_tokenizer, text, token, directory, path.name)
        _check_groups(hf_tokenizer, declared, directory, path.name, n_vocab=n_vocab)
    vocabulary, tokens = read_vocabulary(directory)
    for token, text in enumerate(tokens):
        # Many tokenizers lack the timestamps, and one of the two names of no speech.
        if text.startswith("<|") and hf_tokenizer.token_to_id(text) is None:
            continue
        _check_token(hf_tokenizer, text, token, directory, vocabulary)
    if n_vocab in PUBLISHED_ROWS:
        last = n_vocab - TIMESTAMPS - 1
        _check_token(hf_tokenizer, NO_TIMESTAMPS, last, directory, f"weights of {n_vocab} rows")


def _check_token(
    hf_tokenizer: HfTokenizer, text: str, expected: int, directory: Path, source: str
) -> None:
    token = hf_tokenizer.token_to_id(text)
    if token != expected:
        found = "is missing" if token is None else f"is {token}"
        fault = f"the token {one_line(text)[:60]} {found}, expected {expected}"
        raise _misfit(directory, source, fault)


def _check_groups(
    hf_tokenizer: HfTokenizer, declared: _TokenIds, directory: Path, source: str, *, n_vocab: int
) -> None:
    """Check the ids that are listed without the texts of their tokens."""
    eot = hf_tokenizer.token_to_id(EOT)
    may_be_suppressed = {hf_tokenizer.token_to_id(text) for text in SUPPRESSED_TOKENS}
    for token in {*(declared.suppress_ids or ()), *(declared.suppress_tokens or ())}:
        if token > eot and token not in may_be_suppressed:
            fault = f"the suppressed token {token} is a language or a timestamp"
            raise _misfit(directory, source, fault)
    if n_vocab == ENGLISH_ROWS:
        return  # those of published English-only models are off by one, and not used
    languages = {hf_tokenizer.token_to_id(f"<|{code}|>") for code in LANGUAGES}
    for token in declared.lang_ids or ():
        if token not in languages:
            raise _misfit(directory, source, f"the token {token} is not a language")


def _misfit(directory: Path, source: str, fault: str) -> ModelNotFoundError:
    path = directory / TOKENIZER_FILE
    tokenizer = path if path.exists() else f"the built-in tokenizer of {directory}"  # of MLX
    return ModelNotFoundError(f"{tokenizer} does not fit {source}: {fault}; {TOKENIZER_REMEDY}")
