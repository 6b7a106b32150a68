"""The endpoint: its URL, whether it is on this machine, and its key."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

import attrs

from wlk_core.models import offline_mode
from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_core.untrusted import is_loopback

__all__ = ["Endpoint"]

DEFAULT_URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"  # as the official client reads it
NO_KEY = "none"  # local servers require no key, and the client requires one
REQUEST_PATHS = ("/transcriptions", "/translations")  # the ends of request URLs


@attrs.frozen(kw_only=True)
class Endpoint:
    """
    An endpoint and the key for it.

    The key is sent to `url` and nowhere else, and no message contains it.
    """

    url: str
    key_variable: str
    key: str = attrs.field(repr=False)

    @classmethod
    def resolve(cls, base_url: str | None, *, key_variable: str, model: str) -> Endpoint:
        """
        Return the endpoint of *base_url*, after checking that it may serve *model*.

        No request is sent.

        Raises:
            OptionError: the URL, the name of the variable or the model is invalid.
            ModelNotFoundError: the model is a directory or, offline, a repository.
            BackendUnavailable: the key is missing, or the network is switched off.

        """
        url = (base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        _check_url(url)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key_variable):
            raise OptionError(  # the value is not shown, because it may be the key itself
                "openai-api: option api_key_env is the name of an environment variable, such as "
                "OPENAI_API_KEY, and never the key itself"
            )
        if model.startswith((".", "/", "~")) or (os.sep != "/" and os.sep in model):
            raise ModelNotFoundError(
                f"model {model} is a directory, and openai-api runs no model itself; name one that "
                f"{url} serves, with --model NAME"
            )
        # No verbose_json: https://developers.openai.com/api/docs/guides/speech-to-text
        if model.startswith("gpt-"):
            raise OptionError(
                f"the model {model} returns no word times, which streaming needs; expected one "
                "that does, such as whisper-1 or whisper-large-v3"
            )
        key = os.environ.get(key_variable, "").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise BackendUnavailable(
                f"openai-api: expected a key in the environment variable {key_variable}, and its "
                "value has spaces or characters that no key has; set it again with: "
                f"export {key_variable}=..."
            )
        endpoint = cls(url=url, key_variable=key_variable, key=key or NO_KEY)
        if offline_mode():
            endpoint._check_offline(model)
        if not key and endpoint.is_openai:
            raise BackendUnavailable(
                f"openai-api: expected the key for {url} in the environment variable "
                f"{key_variable}, which is not set; set it with: export {key_variable}=..."
            )
        return endpoint

    @property
    def is_openai(self) -> bool:
        """Whether the endpoint is OpenAI's own, in one of its regions."""
        return f".{urlsplit(self.url).hostname}".endswith(".api.openai.com")

    @property
    def is_local(self) -> bool:
        """Whether the endpoint is this machine, so that audio sent to it does not leave it."""
        return is_loopback(urlsplit(self.url).hostname or "")

    def _check_offline(self, model: str) -> None:
        if not self.is_local:
            raise BackendUnavailable(
                f"openai-api sends audio to {self.url}, and the network is switched off "
                "(--offline, HF_HUB_OFFLINE); use a local backend (wlk-core backends) or "
                "a server on this machine: --option base_url=http://127.0.0.1:PORT/v1"
            )
        if "/" in model:
            raise ModelNotFoundError(
                f"model {model} is named like a repository, which the server at {self.url} would "
                "fetch where it lacks it, and the network is switched off (--offline, "
                "HF_HUB_OFFLINE); use the server's own name of a model, with --model NAME"
            )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    is_url = is_url and url.isprintable() and not {" ", "?", "#", "@"} & set(url)
    if not is_url or url.endswith(REQUEST_PATHS):
        raise OptionError(
            "openai-api: option base_url is the URL of an endpoint without the part "
            f"/audio/transcriptions, a query or a password, such as {DEFAULT_URL}; got "
            f"{url.rpartition('@')[2]!r}; keys come from the environment, see api_key_env"
        )
