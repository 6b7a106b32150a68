"""What clients may know and choose about the model that is served."""

from __future__ import annotations

from pathlib import PurePath
import reprlib
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_core.backend import BackendSpec
from wlk_core.errors import OptionError
from wlk_core.languages import find_language
from wlk_serve.errors import RequestError, invalid

if TYPE_CHECKING:
    from wlk_core.backend import Backend


@attrs.frozen(kw_only=True)
class ModelCard:
    """
    The served model: its name on the wire, and its backend's declaration.

    Attributes:
        name: what clients write as `model`.
        spec: the backend.
        is_digits: whether the model recognises the spoken digits alone, as those of tests.
        speaker_delay: seconds of audio after which a speaker is known at the latest, None for none.
        detects_turns: whether the server has a turn detector.
        translates_to: the code of the language to which sessions can be translated, None for none.
        language: the code that a session is forced to unless it names another, None to detect.
        vocabulary: the words of a backend that reads coded audio, which tests use; else empty.

    """

    name: str
    spec: BackendSpec
    language: str | None = None
    vocabulary: tuple[str, ...] = ()
    is_digits: bool = False
    speaker_delay: float | None = None
    detects_turns: bool = False
    translates_to: str | None = None

    @classmethod
    def of(
        cls,
        spec: BackendSpec,
        model: str | None,
        language: str | None = None,
        *,
        served_name: str | None = None,
    ) -> Self:
        """Return the card of *model*; unless it has a `served_name`, a path gives its last part."""
        name = spec.name if model is None else model
        if PurePath(name).is_absolute() or name.startswith("."):
            name = PurePath(name).name or spec.name
        is_digits = name in spec.digit_models
        return cls(name=served_name or name, spec=spec, language=language, is_digits=is_digits)

    def declared_by(self, backend: Backend) -> Self:
        """Return the card with what the loaded *backend* declares, which may be less."""
        declared = getattr(backend, "declared", None)  # of a backend at another server
        spec = declared() if callable(declared) else getattr(backend, "spec", None)
        return attrs.evolve(
            self,
            spec=spec if isinstance(spec, BackendSpec) else self.spec,
            vocabulary=tuple(getattr(backend, "vocabulary", ())),
        )

    def takes(self, name: str) -> bool:
        """Return whether a stream of the backend has the option *name*, as "prompt"."""
        return any(option.name == name and option.scope == "stream" for option in self.spec.options)

    def has_name(self, name: object) -> bool:
        """Return whether a client that writes *name* asks for this model."""
        return name in (self.name, f"{self.spec.name}/{self.name}")

    def check_name(self, name: object, *, param: str = "model") -> None:
        """Raise RequestError where *name* is another model (404), or not a string (400)."""
        if not isinstance(name, str) or not name:
            expected = f"as a string, for example {self.name!r}"
            raise invalid(param, expected, code="invalid_type")
        if not self.has_name(name):
            raise RequestError(
                f"the model {name[:100]!r} is not served here; use {self.name!r}",
                status=404,
                code="model_not_found",
                param=param,
            )

    def named(self, name: object) -> Self:
        """Return this card to a client of *name*, None for any; raises as `check_name`."""
        if name is not None:
            self.check_name(name)
        return self

    def check_language(self, code: object, *, param: str = "language") -> str | None:
        """
        Return the code of the backend for "en", "en-US" or "English"; None for an empty text.

        Raises:
            RequestError: the backend does not have the language.

        """
        if not isinstance(code, str):
            raise invalid(param, "as a string", reprlib.repr(code), code="invalid_type")
        if not code:
            return None
        language = find_language(code, self.spec.languages)
        try:
            self.spec.check_language(language)
        except OptionError as error:
            raise RequestError(str(error), code="invalid_value", param=param) from error
        return language

    def record(self) -> dict[str, Any]:
        """Return the object of ``GET /v1/models``, in which `wlk` is for the backend `realtime`."""
        spec = self.spec
        return {
            "id": self.name,
            "object": "model",
            "created": 0,
            "owned_by": "wlk",
            "wlk": {
                "backend": spec.name,
                "capabilities": sorted(spec.capabilities),
                "languages": list(spec.languages),
                "max_delay": spec.max_delay,
                "bounds": dict(spec.bounds),
                "deviations": dict(spec.deviations),
                "takes_prompt": self.takes("prompt"),
                "recognises_digits": self.is_digits,
                "vocabulary": list(self.vocabulary),
                "include": ["wlk.marks"],  # what a Realtime session can add for it
            },
        }
