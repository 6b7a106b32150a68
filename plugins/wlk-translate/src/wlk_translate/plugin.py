"""Declare the translators, without importing their engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.languages import NAMES
from wlk_core.plugins import AnnotatorSpec, Option, PluginSpec, hookimpl, standard_options
from wlk_translate.models import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable

_LANGUAGES = (
    Option(name="target_language", help="code of the language to translate to, such as de"),
    Option(
        name="source_language",
        help="code of the spoken language; words detected as another language are not translated",
    ),
)

OPUS_MT = AnnotatorSpec(
    kind="translator",
    name="opus-mt",
    api=1,
    summary="OPUS-MT on CTranslate2, one model for each pair of languages; CPU, CUDA",
    load="wlk_translate.ctranslate2.opus_mt:load",
    options=(
        *_LANGUAGES,
        Option(
            name="target_token",
            help="token of the target language in a model of several languages, such as >>por<<; "
            "by default that of target_language",
        ),
        standard_options.device("cpu", "cuda", "cuda:N"),
        standard_options.dtype(
            "default", "fastest", "int8", "int8_float32", "int16", "float16", "bfloat16", "float32"
        ),
        Option(
            name="cpu_threads",
            type=int,
            default=1,
            minimum=1,
            maximum=64,
            help="threads per translation on the CPU; several translations can run at once",
        ),
        Option(
            name="beam_size",
            type=int,
            default=1,
            minimum=1,
            maximum=16,
            help="hypotheses that the decoder keeps; 1 is greedy decoding, 2 take twice as long",
            former_names=("num_beams",),
        ),
        standard_options.CACHE_DIR,
    ),
    languages=sorted({pair.partition("-")[2] for pair in MODELS}),
    models=MODELS,
    model_files=("config.json", "model.bin", "*vocabulary.*", "source.spm", "target.spm"),
    requires={
        "ctranslate2": "pip install wlk-translate",
        "sentencepiece": "pip install wlk-translate",
    },
)

OPENAI_CHAT = AnnotatorSpec(
    kind="translator",
    name="openai-chat",
    api=1,
    summary="a chat model on any OpenAI-compatible server; sends the text there",
    load="wlk_translate.openai_api.chat:load",
    options=(
        *_LANGUAGES,
        Option(
            name="base_url",
            help="URL of the server; by default OPENAI_BASE_URL, else https://api.openai.com/v1",
        ),
        Option(
            name="api_key_env",
            default="OPENAI_API_KEY",
            help="name of the environment variable that holds the key; local servers may need none",
        ),
        Option(
            name="timeout_seconds",
            type=float,
            default=5.0,
            minimum=0.1,
            maximum=600.0,
            help="seconds after which an attempt to translate a clause fails",
        ),
        Option(
            name="max_retries",
            type=int,
            default=2,
            minimum=0,
            maximum=10,
            help="times a failed request is repeated, each after a longer wait",
        ),
    ),
    languages=tuple(NAMES),
    requires={"openai": "pip install 'wlk-translate[openai]'"},
)


@hookimpl
def wlk_translators() -> Iterable[AnnotatorSpec]:
    """Return the translators of this distribution."""
    return (OPUS_MT, OPENAI_CHAT)


@hookimpl(optionalhook=True)  # wlk-serve adds the specification
def wlk_protocols() -> list[PluginSpec]:
    """Return the WebSocket of OpenAI's translations."""
    return [
        PluginSpec(
            kind="protocol",
            name="translations",
            api=1,
            summary="OpenAI's translations: /v1/realtime/translations",
            load="wlk_translate.routes:routes",
        )
    ]
