"""Faults of plugins, and of what they declare: imports, refusals, models, bounds and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import CountedStream, FaultyBackend, edited, violates
from wlk_conformance.scripted import ScriptedBackend
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from wlk_core import Backend, Emission

__all__: list[str] = []

PYTEST = {"requires": {"pytest": "pip install pytest"}}


@violates("PKG-02", entry_point="faulty_backends.plugin_with_heavy_hook")
class ImportsNumpyInItsHook(CountedStream):
    """Imports numpy when it is asked for its backends, and not before."""


@violates("PKG-02", entry_point="faulty_backends.plugin_with_heavy_helper")
class ImportsModuleThatImportsNumpy(CountedStream):
    """Imports a module of its own that imports numpy."""


@violates("PKG-03")
class NamesNoCommand:
    """Raises ModelNotFoundError for an unknown model, and names no command that helps."""

    @staticmethod
    def load(model: str | None) -> Backend:
        """Refuse it."""
        if model != "digits":
            raise ModelNotFoundError(f"no model {model}")
        return ScriptedBackend()


@violates("PKG-04")
class IgnoresUnknownTask(FaultyBackend):
    """Transcribes where an unknown task is requested."""

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Drop the task."""
        del task
        return super().create_processor(language=language, **options)


@violates("PKG-05", spec=PYTEST, entry_point="faulty_backends.plugin_with_framework_at_import")
class CannotBeListedWithoutFramework(CountedStream):
    """Imports its framework with its plugin module, so that it is not listed without it."""


@violates("PKG-05", spec=PYTEST, entry_point="faulty_backends.plugin_without_command")
class NamesNoFrameworkCommand(CountedStream):
    """Raises BackendUnavailable without its framework, and names no command that installs it."""


@violates("QUAL-01", tiers=("speech",), spec={"bounds": {"word_start_median": 0.02}})
class ExceedsDeclaredStartError(CountedStream):
    """Starts every word 50 ms late, and declares a median of 20 ms."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move them."""
        for index, token in enumerate(emission.committed):
            start = min(token.start + 0.05, token.end)
            emission = edited(emission, index, start=start)
        return emission


@violates("QUAL-04")
class AnswersWithOneWord(CountedStream):
    """Commits the same word for every word."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Replace them."""
        for index in range(len(emission.committed)):
            emission = edited(emission, index, text=" you")
        return emission


@violates("QUAL-04")
class CommitsEveryWordTwice(CountedStream):
    """Commits every word twice."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Repeat them."""
        twice = [
            attrs.evolve(token, text=f" {token.text.strip()}")
            for token in emission.committed
            for _ in range(2)
        ]
        return emission.replace(committed=tuple(twice))
