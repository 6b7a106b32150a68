"""Describe the served model to clients, and check what they request of it."""

from __future__ import annotations

from pathlib import PurePath
import reprlib
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_core.backend import BackendSpec
from wlk_core.errors import OptionError
from wlk_live.language_choice import checked_language
from wlk_serve.errors import RequestError, converted, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.annotators import AnnotatorSpec
    from wlk_core.backend import Backend
    from wlk_serve.protocols.options import Filters

_DETECTED = "auto"


@attrs.frozen(kw_only=True)
class ModelCard:
    """
    The served model: its name for clients, and its backend's declaration.

    Attributes:
        name: the value that clients send as `model`.
        aliases: other values that mean the same model.
        spec: the backend.
        is_digits: whether the model is `digits`, which recognises spoken digits only.
        speaker_delay: seconds of audio until a speaker is known, at most; None without a diarizer.
        detects_turns: whether the server has a turn detector.
        translates_to: code of the language into which sessions can be translated; None for none.
        filters: the text filters that the server has loaded, in their order.
        language: code of the language of sessions that name none; None to detect it.
        vocabulary: the words of a test backend that reads coded audio; empty for others.

    """

    name: str
    spec: BackendSpec
    aliases: tuple[str, ...] = ()
    language: str | None = None
    vocabulary: tuple[str, ...] = ()
    is_digits: bool = False
    speaker_delay: float | None = None
    detects_turns: bool = False
    translates_to: str | None = None
    filters: tuple[AnnotatorSpec, ...] = ()

    @classmethod
    def of(
        cls,
        spec: BackendSpec,
        model: str | None,
        language: str | None = None,
        *,
        served_names: Sequence[str] = (),
    ) -> Self:
        """Return the card of *model*; without `served_names`, a path is named by its last part."""
        name = spec.name if model is None else model
        if PurePath(name).is_absolute() or name.startswith("."):
            name = PurePath(name).name or spec.name
        is_digits = name in spec.digit_models
        name, *aliases = [*dict.fromkeys(served_names)] or [name]
        return cls(
            name=name,
            aliases=tuple(aliases),
            spec=spec,
            language=language,
            is_digits=is_digits,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the model for clients."""
        return (self.name, *self.aliases)

    def declared_by(self, backend: Backend) -> Self:
        """Return the card with the declaration of the loaded *backend*, which may be narrower."""
        declared = getattr(backend, "declared", None)  # a remote backend has this method
        spec = declared() if callable(declared) else getattr(backend, "spec", None)
        return attrs.evolve(
            self,
            spec=spec if isinstance(spec, BackendSpec) else self.spec,
            vocabulary=tuple(getattr(backend, "vocabulary", ())),
        )

    def takes(self, name: str) -> bool:
        """Return whether streams of the backend have the option *name*, such as "prompt"."""
        return any(option.name == name and option.scope == "stream" for option in self.spec.options)

    def has_name(self, name: object) -> bool:
        """Return whether *name* stands for this model."""
        return self._alias(name) is not None

    def check_name(self, name: object, *, param: str = "model") -> None:
        """Raise RequestError if *name* is another model's (404) or not a string (400)."""
        if not isinstance(name, str) or not name:
            expected = f"as a string, for example {self.name!r}"
            raise invalid(param, expected, code="invalid_type")
        if not self.has_name(name):
            served = " or ".join(map(repr, self.names))
            raise RequestError(
                f"the model {name[:100]!r} is not served here; use {served}",
                status=404,
                code="model_not_found",
                param=param,
            )

    def named(self, name: object, *, param: str = "model") -> Self:
        """Return the card under its name *name*, None for the first; raises like `check_name`."""
        if name is None:
            return self
        self.check_name(name, param=param)
        alias = self._alias(name) or self.name
        others = tuple(each for each in self.names if each != alias)
        return attrs.evolve(self, name=alias, aliases=others)

    def _alias(self, name: object) -> str | None:
        served = (each for each in self.names if name in (each, f"{self.spec.name}/{each}"))
        return next(served, None)

    @property
    def ignores_language(self) -> bool:
        """Whether no language can be requested: the backend declares none and cannot force one."""
        return not self.spec.languages and "language-forcing" not in self.spec.capabilities

    def check_language(self, code: object, *, param: str = "language") -> str | None:
        """
        Return the backend's code for a language such as "en", "en-US" or "English".

        Of several, among which it is to be detected, it is a list such as "en,de".  It is that of
        the server for "", and None, which detects the language, for "auto".  It is None too if the
        model `ignores_language`, because some clients always send one.

        Raises:
            RequestError: the backend does not have the language, or *code* is not a string.

        """
        if not isinstance(code, str):
            raise invalid(param, "as a string", reprlib.repr(code), code="invalid_type")
        if not code or code.lower() == _DETECTED:
            return None if code else self.language
        if self.ignores_language:
            return None
        try:
            return checked_language(code, self.spec)
        except OptionError as error:
            raise RequestError(str(error), code="invalid_value", param=param) from error

    def check_filters(self, value: object, *, param: str) -> Filters:
        """
        Return the text filters in *value*, an object of options by filter; None for None.

        Clients choose among those that the server has loaded, and among options of scope "stream".

        Raises:
            RequestError: a filter or an option is unknown, or a value is invalid.

        """
        chosen = converted(value, dict[str, dict[str, Any] | None] | None, param)
        if chosen is None:
            return None
        specs = {spec.name: spec for spec in self.filters}
        for name, values in chosen.items():
            if name not in specs:
                raise invalid(param, f"with filters among {_either(specs)}", reprlib.repr(name))
            options = {each.name: each for each in specs[name].options if each.scope == "stream"}
            for key, given in (values or {}).items():
                if key not in options:
                    expected = f"with options among {_either(options)}"
                    raise invalid(f"{param}.{name}", expected, reprlib.repr(key))
                try:
                    options[key].convert(given, owner=name)
                except OptionError as error:
                    field = f"{param}.{name}.{key}"
                    raise RequestError(str(error), code="invalid_value", param=field) from error
        return {name: values or {} for name, values in chosen.items()}

    def record(self) -> dict[str, Any]:
        """Return the object for ``GET /v1/models``, with `wlk` for the `realtime` backend."""
        spec = self.spec
        filters = {"filters": [each.name for each in self.filters]} if self.filters else {}
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
                "include": ["wlk.marks"],  # the backend can ask a Realtime session for marks
                **filters,
            },
        }


def _either(names: Iterable[str]) -> str:
    return ", ".join(names) or "none, because this server has none"
