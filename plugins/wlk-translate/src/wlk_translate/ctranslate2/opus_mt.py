"""
The translator `opus-mt`: load OPUS-MT models, share them among streams, translate clauses.

Tiedemann and Thottingal, "OPUS-MT: Building open translation services for the World" (EAMT 2020).
"""

from __future__ import annotations

from pathlib import PurePath
import re
import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import ctranslate2
from sentencepiece import SentencePieceProcessor

from wlk_core.languages import NAMES
from wlk_core.plugins import ModelNotFoundError, OptionError, locate
from wlk_frameworks.checkpoints import read_json, read_json_table
from wlk_frameworks.ctranslate2 import choose_compute_type, choose_device, worker_count
from wlk_frameworks.sentences import ends_sentence
from wlk_translate.engine.translator import ClauseTranslator
from wlk_translate.models import MODELS, TARGET_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wlk_core.plugins import AnnotatorSpec
    from wlk_frameworks.devices import Device
    from wlk_translate.engine.translator import Pair

_MAX_PIECES = 256  # in a clause with its context, and in the translation of the context
_POSITIONS = 512  # of Marian's decoder; CTranslate2 raises RuntimeError beyond them
_FULL_STOPS = ".。।۔։።။។"  # noqa: RUF001 -- scripts of target languages

# "en-de" as a whole, or after "opus-mt-": "my" of "my-en-de" is not Burmese.
_PAIR = re.compile(r"(?:^(?=[a-z]+-[a-z]+$)|opus-mt-)([a-z]{2,3})-([a-z]{2,3})(?=-|$)")

# Shared by all open streams.
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
        OptionError: no model is known for the languages, the model lacks the target language, or
            the device does not support the dtype.
        ModelNotFoundError: the model is missing, or not in CTranslate2 format.
        BackendUnavailable: the device is missing.

    """
    if target_language is None:
        raise OptionError("opus-mt: expected option target_language, such as de; got none")
    if model is None:
        model = _find_model(source_language, target_language)
    _check_pair(model, source_language, target_language)
    chosen = choose_device(device)
    compute_type = choose_compute_type(dtype, device=chosen.kind)
    needs = ("config.json", "source.spm", "target.spm")
    directory = locate(model, spec=spec, cache_dir=cache_dir, needs=needs)
    if not (directory / "model.bin").is_file():
        raise ModelNotFoundError(
            f"{directory} holds no model.bin of CTranslate2; convert a transformers checkpoint "
            f"with: ct2-transformers-converter --model {directory} --output_dir OUT --copy_files "
            "source.spm target.spm"
        )
    token = _target_token(model, directory, target_language, target_token)
    key = directory, chosen, compute_type, cpu_threads, beam_size, token
    with _loading:
        engine = _loaded.get(key)
        if engine is None:
            engine = _loaded[key] = OpusMT(
                directory,
                device=chosen,
                compute_type=compute_type,
                threads=cpu_threads,
                beam_size=beam_size,
                target_token=token,
            )
    return ClauseTranslator(
        engine, target_language=target_language, source_language=source_language
    )


class OpusMT:
    """A loaded model; it can be called from any thread, because CTranslate2 queues calls."""

    spans_sentences = False  # OPUS-MT is trained on single sentences

    def __init__(
        self,
        directory: Path,
        *,
        device: Device,
        compute_type: str,
        threads: int,
        beam_size: int,
        target_token: str | None,
    ) -> None:
        config = read_json_table(directory / "config.json")
        try:
            self._source = SentencePieceProcessor(str(directory / "source.spm"))
            self._target = SentencePieceProcessor(str(directory / "target.spm"))
            self._translator = ctranslate2.Translator(
                str(directory),
                device=device.kind,
                device_index=device.number,
                compute_type=compute_type,
                inter_threads=min(4, worker_count(device.kind, threads)),  # leaves cores to speech
                intra_threads=threads,
            )
        except (RuntimeError, ValueError) as error:
            raise ModelNotFoundError(
                f"{directory} could not be loaded as a CTranslate2 model: {error}; convert or pull "
                "it again"
            ) from error
        self._beam_size = beam_size
        self._source_prefix = [] if target_token is None else [target_token]
        # Models converted from transformers need </s> from the caller; those converted from Marian
        # set add_source_eos.
        self._source_suffix = [] if config.get("add_source_eos") else ["</s>"]

    def translate(self, text: str, context: Sequence[Pair]) -> str:
        """
        Return the translation of a clause.

        The earlier clauses of its sentence are part of the input, and their translations are forced
        as prefix, so that word order and endings fit the text that was already shown.
        """
        clause: list[str] = self._source.encode(text, out_type=str)
        pieces, prefix = clause, list[str]()
        for pair in reversed(context):
            source = self._source.encode(pair.source, out_type=str)
            target = self._target.encode(pair.target, out_type=str)
            if max(len(source) + len(pieces), len(target) + len(prefix)) > _MAX_PIECES:
                break
            pieces, prefix = source + pieces, target + prefix
        # A longer clause has no context by now, and is translated in parts.
        parts = [pieces[at : at + _MAX_PIECES] for at in range(0, len(pieces), _MAX_PIECES)]
        output = [piece for part in parts for piece in self._decode(part, prefix, len(clause))]
        if prefix and not output:  # the model considered the sentence complete
            output = self._decode(clause, [], len(clause))
        translated: str = self._target.decode(output)
        if not ends_sentence(text, ""):
            translated = translated.rstrip(_FULL_STOPS)  # the speaker has not finished
        return translated

    def _decode(self, pieces: list[str], prefix: list[str], length: int) -> list[str]:
        (result,) = self._translator.translate_batch(
            [[*self._source_prefix, *pieces, *self._source_suffix]],
            target_prefix=[prefix] if prefix else None,
            beam_size=self._beam_size,
            # Longer output is a decoding loop.
            max_decoding_length=min(len(prefix) + 3 * min(length, len(pieces)) + 16, _POSITIONS),
            disable_unk=True,
        )
        hypothesis: list[str] = result.hypotheses[0]
        return hypothesis[len(prefix) :]


def _find_model(source: str | None, target: str) -> str:
    if source is None:
        raise OptionError(
            "opus-mt: a model translates from one language, and none is given; name the spoken "
            "language with --language CODE or --translator-option source_language=CODE, or a model "
            "with --translator opus-mt=MODEL"
        )
    pair = f"{source}-{target}"
    if pair not in MODELS:
        raise OptionError(
            f"opus-mt: no model is known from {source} to {target}; known are "
            f"{', '.join(sorted(MODELS))}; name another, a repository or a folder in CTranslate2's "
            "format, with --translator opus-mt=MODEL"
        )
    return pair


def _check_pair(model: str, source: str | None, target: str) -> None:
    """Refuse a model of other languages: its translations would be shown as those asked for."""
    pair = _named_pair(model)
    if pair is not None and pair != (source or pair[0], target):
        asked = f"to {target}" if source is None else f"from {source} to {target}"
        raise OptionError(
            f"opus-mt: the model {model} translates from {pair[0]} to {pair[1]}, and not {asked}; "
            "name another model or another language"
        )


def _target_token(model: str, directory: Path, language: str, chosen: str | None) -> str | None:
    """Return the token that selects *language* in a multilingual model, None in a bilingual one."""
    words: list[str] = []
    for path in sorted(directory.glob("s*_vocabulary.*"))[:1]:  # source_ or shared_vocabulary
        if path.suffix == ".json":
            words = read_json(path, list[str])
        else:
            words = path.read_text(encoding="utf-8", errors="replace").splitlines()
    known = sorted(word for word in words if word.startswith(">>") and word.endswith("<<"))
    names = (chosen,) if chosen else (f">>{language}<<", f">>{TARGET_TOKENS.get(language)}<<")
    token = next((name for name in names if name in known), None)
    if token is None and (known or chosen):
        raise OptionError(
            f"opus-mt: the model {model} has no target language {chosen or language}; "
            f"expected option target_token as one of: {', '.join(known) or 'none'}"
        )
    return token


def _named_pair(model: str) -> tuple[str, str] | None:
    """Return the two languages in the name of a model, repository or folder, if it has them."""
    match = _PAIR.search(PurePath(model).name)
    if match is None or not set(match.groups()) <= NAMES.keys():
        return None  # of several languages, such as opus-mt-en-ROMANCE, or named otherwise
    return match[1], match[2]
