"""Faulty backends that break PKG."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from faulty_backends.base import FaultyBackend, FaultyStream, breaks
from wlk_conformance.scripted import ScriptedBackend
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from wlk_core import Backend, Emission

__all__: list[str] = []


@breaks("PKG-01", spec={"api": 99})
class DeclaresUnknownApi(FaultyStream):
    """Declares a plugin API that this core does not support."""


@breaks("PKG-01", spec={"deviations": {"SIL-99": "no such rule"}})
class DeclaresUnknownDeviation(FaultyStream):
    """Declares a deviation from a rule that does not exist."""


@breaks(
    "PKG-01",
    spec={"capabilities": frozenset({"hypothesis", "word-times", "speaker-turns"})},
)
class ReturnsUndeclaredProbabilities(FaultyStream):
    """Returns probabilities that its spec does not declare."""


@breaks("PKG-02", entry_point="faulty_backends.plugin_with_heavy_import")
class ImportsNumpy(FaultyStream):
    """Its plugin module imports numpy."""


@breaks("PKG-03")
class RaisesKeyErrorForUnknownModel:
    """Raises the KeyError of its own table of models."""

    @staticmethod
    def load(model: str | None) -> Backend:
        """Look up the model."""
        return {None: ScriptedBackend, "digits": ScriptedBackend}[model]()


@breaks("PKG-03")
class ConnectsForLocalPath:
    """Connects to the network for a model that is a local path."""

    @staticmethod
    def load(model: str | None) -> Backend:
        """Try to connect before looking."""
        if model == "digits":
            return ScriptedBackend()
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=0.01).close()
        except OSError as error:
            raise ModelNotFoundError(f"no model {model}; try wlk-core pull {model}") from error
        raise ModelNotFoundError(f"no model {model}; try wlk-core pull {model}")


@breaks("PKG-04")
class DropsOptions(FaultyBackend):
    """Accepts any option of a stream and ignores it."""

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Drop the options that the core would refuse."""
        del options
        return super().create_processor(language=language, task=task)


@breaks("PKG-04")
class IgnoresUnknownLanguage(FaultyBackend):
    """Ignores a language that it does not support."""

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Drop an unknown language."""
        known = language if language in self.spec.languages else None
        return super().create_processor(language=known, task=task, **options)


@breaks(
    "PKG-05",
    spec={"requires": {"pytest": "pip install pytest"}},
    entry_point="faulty_backends.plugin_without_framework",
)
class HidesMissingFramework(FaultyStream):
    """Raises a RuntimeError where its framework is missing."""


@breaks("PKG-06")
class Prints(FaultyStream):
    """Prints a line at every step."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Print and pass on."""
        print(f"{call}: {emission.processed_up_to:.2f} s")  # noqa: T201 -- the fault
        return emission


@breaks("PKG-06")
class PrintsWhenLoaded:
    """Prints a line when it is loaded."""

    @staticmethod
    def load(model: str | None) -> Backend:
        """Print and load."""
        if model != "digits":
            raise ModelNotFoundError(f"no model {model}; try --model digits")
        print("loading ...")  # noqa: T201 -- the fault
        return ScriptedBackend()
