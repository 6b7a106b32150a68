"""
Find, load and share an OPUS-MT model, and translate clauses with it.

Tiedemann and Thottingal, "OPUS-MT: Building open translation services for the World" (EAMT 2020).
"""

from __future__ import annotations

import json
import os
import platform
import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import ctranslate2
from sentencepiece import SentencePieceProcessor

from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError, locate
from wlk_translate.engine.translator import ClauseTranslator
from wlk_translate.models import MODELS, TARGET_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wlk_core.plugins import AnnotatorSpec
    from wlk_translate.engine.translator import Pair

__all__ = ["OpusMT", "load"]

_MAX_PIECES = 256  # of a clause and its context; the models were trained on up to 512
_MAX_WORKERS = 4  # translations at a time on a CPU, for a server with many streams
_EOS = "</s>"
_FULL_STOPS = (".", "。")

# Loaded once for all streams that are open.
_loaded: WeakValueDictionary[tuple[object, ...], OpusMT] = WeakValueDictionary()
_loading = threading.Lock()


def load(
    spec: AnnotatorSpec,
    model: str | None,
    *,
    target_language: str | None,
    source_language: str | None,
    target_token: str | None,
    device: str,
    dtype: str,
    cpu_threads: int,
    beam_size: int,
    cache_dir: str | None,
) -> ClauseTranslator:
    """
    Return a translator for one stream.

    Raises:
        OptionError: no model is known for the languages, or the model has no such target language.
        ModelNotFoundError: the model is not available, or is none of CTranslate2's.
        BackendUnavailable: there is no such device.

    """
    if target_language is None:
        raise OptionError("opus-mt: expected option target_language, such as de; got none")
    if model is None:
        model = _model_of(source_language, target_language)
    directory = locate(model, spec=spec, cache_dir=cache_dir, needs=("source.spm", "target.spm"))
    if not (directory / "model.bin").is_file():
        raise ModelNotFoundError(
            f"{directory} holds no model.bin of CTranslate2; convert a checkpoint of transformers "
            f"with: ct2-transformers-converter --model {directory} --output_dir OUT --copy_files "
            "source.spm target.spm"
        )
    token = _target_token(directory, target_language, target_token)
    key = directory, device, dtype, cpu_threads, beam_size, token
    with _loading:
        engine = _loaded.get(key)
        if engine is None:
            translator = _open(directory, device, dtype, cpu_threads)
            engine = OpusMT(directory, translator, beam_size=beam_size, target_token=token)
            _loaded[key] = engine
    return ClauseTranslator(
        engine, target_language=target_language, source_language=source_language
    )


class OpusMT:
    """A loaded model; calls may come from any thread, because CTranslate2 queues them."""

    spans_sentences = False  # it was trained on single sentences

    def __init__(
        self,
        directory: Path,
        translator: ctranslate2.Translator,
        *,
        beam_size: int,
        target_token: str | None,
    ) -> None:
        self._source = SentencePieceProcessor(str(directory / "source.spm"))
        self._target = SentencePieceProcessor(str(directory / "target.spm"))
        self._translator = translator
        self._beam_size = beam_size
        self._before = [] if target_token is None else [target_token]
        # The converter of transformers' checkpoints leaves it to the caller, that of Marian's not.
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        self._after = [] if config.get("add_source_eos") else [_EOS]

    def translate(self, text: str, context: Sequence[Pair]) -> str:
        """
        Return the translation of a clause.

        The clauses before it in its sentence are translated with it, and their translations are
        forced: the decoder goes on with them, so that order and endings fit what was shown.
        """
        clause = self._source.encode(text, out_type=str)
        before = [(self._pieces(pair.source), pair.target) for pair in context]
        while before and len(clause) + sum(len(pieces) for pieces, _ in before) > _MAX_PIECES:
            del before[0]
        pieces = [piece for pieces, _ in before for piece in pieces] + clause
        prefix = self._target.encode(" ".join(target for _, target in before), out_type=str)
        found = self._decode(pieces, prefix, len(clause))
        if before and not found:  # to the model its sentence was complete
            found = self._decode(clause, [], len(clause))
        translated: str = self._target.decode(found)
        if not text.endswith(_FULL_STOPS) and translated.endswith(_FULL_STOPS):
            translated = translated[:-1]  # the speaker has not finished, or never sets one
        return translated

    def _pieces(self, text: str) -> list[str]:
        pieces: list[str] = self._source.encode(text, out_type=str)
        return pieces

    def _decode(self, pieces: list[str], prefix: list[str], length: int) -> list[str]:
        (result,) = self._translator.translate_batch(
            [[*self._before, *pieces, *self._after]],
            target_prefix=[prefix] if prefix else None,
            beam_size=self._beam_size,
            max_decoding_length=len(prefix) + 3 * length + 16,  # of no use is what loops
            disable_unk=True,
        )
        hypothesis: list[str] = result.hypotheses[0]
        return hypothesis[len(prefix) :]


def _model_of(source: str | None, target: str) -> str:
    if source is None:
        raise OptionError(
            "opus-mt: a model translates from one language, and none is given; name the one that "
            "is spoken with --language CODE (source_language), or a model with --translator "
            "opus-mt=MODEL"
        )
    pair = f"{source}-{target}"
    if pair not in MODELS:
        raise OptionError(
            f"opus-mt: no model is known from {source} to {target}; known are "
            f"{', '.join(sorted(MODELS))}; name another, a repository or a folder in CTranslate2's "
            "format, with --translator opus-mt=MODEL"
        )
    return pair


def _target_token(directory: Path, language: str, chosen: str | None) -> str | None:
    """Return the token that chooses the language in a model of several, None for one of one."""
    files = sorted(directory.glob("s*_vocabulary.*"))  # that of the source, or a shared one
    text = files[0].read_text(encoding="utf-8") if files else "[]"
    words = json.loads(text) if text.startswith("[") else text.splitlines()
    known = sorted(word for word in words if word.startswith(">>") and word.endswith("<<"))
    names = (chosen,) if chosen else (f">>{language}<<", f">>{TARGET_TOKENS.get(language)}<<")
    token = next((name for name in names if name in known), None)
    if token is None and (known or chosen):
        raise OptionError(
            f"opus-mt: the model {directory.name} has no target language {chosen or language}; "
            f"expected option target_token as one of: {', '.join(known) or 'none'}"
        )
    return token


def _open(directory: Path, device: str, dtype: str, threads: int) -> ctranslate2.Translator:
    has_cuda = ctranslate2.get_cuda_device_count() > 0
    if device == "cuda" and not has_cuda:
        raise BackendUnavailable(
            "device=cuda is not available, because CTranslate2 finds no CUDA device; check the "
            "driver with nvidia-smi, or leave the device out"
        )
    if device == "auto":
        device = "cuda" if has_cuda else "cpu"
    if dtype == "auto":
        is_x86 = platform.machine().lower() in {"x86_64", "amd64"}
        dtype = "int8" if device == "cpu" and is_x86 else "default"
    possible = ctranslate2.get_supported_compute_types(device)
    if dtype != "default" and dtype not in possible:
        raise OptionError(
            f"dtype={dtype} cannot run on {device} here; expected one of: auto, default, "
            f"{', '.join(sorted(possible))}"
        )
    workers = min(_MAX_WORKERS, max(1, (os.cpu_count() or 1) // threads)) if device == "cpu" else 1
    try:
        return ctranslate2.Translator(
            str(directory),
            device=device,
            compute_type=dtype,
            inter_threads=workers,
            intra_threads=threads,
        )
    except (RuntimeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a CTranslate2 model: {error}; convert or pull it "
            "again"
        ) from error
