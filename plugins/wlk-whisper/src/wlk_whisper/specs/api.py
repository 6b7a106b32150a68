"""What the openai-api backend offers: Whisper behind an HTTP endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import BackendSpec, Option
from wlk_whisper.languages import LANGUAGES
from wlk_whisper.specs import common

if TYPE_CHECKING:
    from wlk_core import Backend

__all__ = ["OPENAI_API"]

# Names under which hosts serve Whisper with word times: api.openai.com (whisper-1) and
# api.groq.com/openai (the other two).  Any other name is for the endpoint to know.
HOSTED_MODELS = {
    "whisper-1": "hosted",
    "whisper-large-v3": "hosted",
    "whisper-large-v3-turbo": "hosted",
}


def load_openai_api(model: str | None, **options: Any) -> Backend:
    """Prepare a client of a transcription endpoint; see BackendSpec.load."""
    from wlk_whisper.api_backend import OpenAIBackend  # noqa: PLC0415 -- brings openai

    return OpenAIBackend.load(model, **options)


OPENAI_API = BackendSpec(
    name="openai-api",
    api=1,
    summary="Whisper at an OpenAI-compatible endpoint; sends the audio there",
    load=load_openai_api,
    options=(
        Option(
            name="base_url",
            default=None,
            help="the part of the endpoint's URL before /audio/transcriptions; by default "
            "$OPENAI_BASE_URL, else https://api.openai.com/v1",
        ),
        Option(
            name="api_key_env",
            default="OPENAI_API_KEY",
            help="name of the environment variable that holds the key for base_url",
        ),
        Option(
            name="timeout_seconds",
            type=float,
            default=30.0,
            minimum=0.1,
            maximum=600.0,
            help="seconds an attempt may go without an answer",
        ),
        Option(
            name="max_retries",
            type=int,
            default=2,
            minimum=0,
            maximum=10,
            help="times a request is repeated, later each time, when the endpoint is busy, broken "
            "or out of reach",
        ),
        common.INIT_PROMPT,
        Option(
            name="tick_seconds",
            type=float,
            default=2.0,
            minimum=0.5,
            maximum=10.0,
            help="seconds of audio between two requests",
            scope="stream",
        ),
        Option(
            name="buffer_seconds",
            type=float,
            default=8.0,
            minimum=3.0,
            maximum=25.0,
            help="length from which the audio sent is cut behind committed words",
            scope="stream",
        ),
    ),
    # Words come without a likelihood: verbose_json knows one of whole segments only.
    capabilities=common.CAPABILITIES - {"probabilities"},
    languages=LANGUAGES,
    policies=("local-agreement",),
    models=HOSTED_MODELS,
    default_model="whisper-1",
    max_delay=3.0,
    bounds=common.BOUNDS,
    preference=None,  # it sends audio away and costs money: only when it is named
    requires={"openai": "pip install 'wlk-whisper[openai]'"},
)
