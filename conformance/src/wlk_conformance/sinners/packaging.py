"""Sinners against PKG."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.sinners.sinner import Sin, SinfulBackend, sinner
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from wlk_core import Backend, Emission

__all__: list[str] = []


@sinner("PKG-01", spec={"api": 99})
class SpeaksAnotherApi(Sin):
    """Declares a plugin API that this core does not speak."""


@sinner("PKG-01", spec={"deviations": {"SIL-99": "no such rule"}})
class DeviatesFromNothing(Sin):
    """Declares a deviation from a rule that does not exist."""


@sinner(
    "PKG-01",
    defects="B44",
    spec={"capabilities": frozenset({"hypothesis", "word-times", "speaker-turns"})},
)
class HasMoreThanItDeclares(Sin):
    """Gives probabilities that its spec does not declare."""


@sinner("PKG-02", entry_point="wlk_conformance.sinners.heavy")
class ImportsNumpy(Sin):
    """Its plugin module imports numpy."""


@sinner("PKG-03", defects="B41")
class CrashesOnAnUnknownModel:
    """Lets the KeyError of its own table of models out."""

    @staticmethod
    def load(model: str | None) -> Backend:
        """Look the model up."""
        return {None: ScriptedBackend, "digits": ScriptedBackend}[model]()


@sinner("PKG-03")
class AsksTheNetworkForAPath:
    """Looks on the network for a model that is a local path."""

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


@sinner("PKG-04", defects="B43")
class DropsOptions(SinfulBackend):
    """Takes any option of a stream and reads none."""

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Drop the options that the core would refuse."""
        del options
        return super().create_processor(language=language, task=task)


@sinner("PKG-04", defects="B42")
class TakesAnyLanguage(SinfulBackend):
    """Takes a language that it does not know for no language."""

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Drop an unknown language."""
        known = language if language in self.spec.languages else None
        return super().create_processor(language=known, task=task, **options)


@sinner(
    "PKG-05",
    spec={"requires": {"pytest": "pip install pytest"}},
    entry_point="wlk_conformance.sinners.frameless",
)
class DiesWithoutItsFramework(Sin):
    """Raises a RuntimeError where its framework is missing."""


@sinner("PKG-06")
class Prints(Sin):
    """Prints a line at every step."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Print and pass on."""
        print(f"{call}: {emission.processed_up_to:.2f} s")  # noqa: T201 -- the sin
        return emission


@sinner("PKG-06")
class PrintsWhenLoaded:
    """Prints a line when it is loaded."""

    @staticmethod
    def load(model: str | None) -> Backend:
        """Print and load."""
        if model != "digits":
            raise ModelNotFoundError(f"no model {model}; try --model digits")
        print("loading ...")  # noqa: T201 -- the sin
        return ScriptedBackend()
