"""
How many small mistakes in the parts of streams are seen: ``python -m wlk_conformance.mutants``.

Each mutant is `wlk_core.streaming` and `wlk_core.online` with one mistake, in an interpreter of its
own.  It is killed by the core's tests of these two rooms, where this is a checkout, or by the
contract tier on the scripted backend, in each of its shapes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
import importlib.util
import io
import os
from pathlib import Path
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_conformance.mutation import Mutation, mutated, mutations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

    from wlk_core import Backend

__all__ = ["Mutant", "all_mutants", "main"]

ROOMS = ("streaming", "online")
SURVIVED, KILLED = 0, 1
FATES = {SURVIVED: "survived", KILLED: "killed"}


@attrs.frozen
class Mutant:
    """A module of the core with one mistake."""

    module: str
    mutation: Mutation

    def __str__(self) -> str:
        """Say where the mistake is, and which."""
        return f"{self.module}:{self.mutation.line}: {self.mutation.what}"


def all_mutants() -> tuple[Mutant, ...]:
    """Return every mutant, by module and line."""
    core = _core()
    return tuple(
        Mutant(f"wlk_core.{room}.{path.stem}", mutation)
        for room in ROOMS
        for path in sorted((core / room).glob("*.py"))
        if path.stem != "__init__"
        for mutation in mutations(path.read_text(encoding="utf-8"))
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--sample", type=click.IntRange(min=1), help="Try so many, drawn by the seed.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds after which a mutant hangs, which kills it.",
)
@click.option("--floor", type=click.FloatRange(0, 1), default=0.0, help="Fail below this share.")
def main(*, sample: int | None, seed: int, jobs: int, time_limit: float, floor: float) -> None:
    """Make mistakes in the parts of streams and report the share that the tests see."""
    mutants: Sequence[Mutant] = all_mutants()
    total = len(mutants)
    if sample is not None and sample < total:
        mutants = random.Random(seed).sample(mutants, sample)  # noqa: S311 -- no secret
    if _fate(None, time_limit) != "survived":
        raise click.ClickException("the tests fail without any mistake: there is nothing to see")
    with ThreadPoolExecutor(jobs) as pool:
        fates = []
        for mutant, fate in zip(
            mutants, pool.map(partial(_fate, time_limit=time_limit), mutants), strict=True
        ):
            fates.append(fate)
            click.echo(f"{fate:9} {mutant}")
    seen = len(fates) - fates.count("survived")
    share = seen / len(fates)
    click.echo(
        f"{seen} of {len(fates)} mutants killed ({100 * share:.1f} %), {fates.count('hung')} of "
        f"them by the time limit; {total} there are, seed {seed}"
    )
    sys.exit(0 if share >= floor else 1)


def _fate(mutant: Mutant | None, time_limit: float) -> str:
    """Return "survived", "killed" or "hung"; None is the core without a mistake."""
    place = [] if mutant is None else [mutant.module, str(mutant.mutation.number)]
    command = [sys.executable, "-P", "-c", _JUDGE, *place]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    try:
        done = subprocess.run(  # noqa: S603 -- this interpreter, arguments of our own
            command, env=environment, capture_output=True, timeout=time_limit, check=False
        )
    except subprocess.TimeoutExpired:
        return "hung"
    return FATES.get(done.returncode, "killed")  # a mistake may end the interpreter


_JUDGE = """
import sys
from wlk_conformance.mutants import judge
sys.exit(judge(*sys.argv[1:]))
"""


def judge(module: str | None = None, number: str = "") -> int:
    """Return whether the mistake *number* in *module* is seen in this process: 1 if so, else 0."""
    if module is not None:
        for name in [name for name in sys.modules if name.split(".")[0] in _PACKAGES]:
            del sys.modules[name]
        sys.meta_path.insert(0, _Mutator(module, int(number)))
    return KILLED if _fails_core_tests() or _breaks_a_rule() else SURVIVED


_PACKAGES = ("wlk_core", "wlk_conformance")


@attrs.frozen
class _Mutator:
    """Import *module* with its mistake."""

    module: str
    number: int

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find the module; leave all others to Python."""
        if fullname != self.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _MutatedLoader(fullname, spec.origin, self.number)
        return spec


class _MutatedLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, number: int) -> None:
        super().__init__(fullname, path)
        self._number = number

    def get_code(self, fullname: str) -> CodeType:
        """Compile the mistake; nothing is read from or written to a cache."""
        path = self.get_filename(fullname)
        source = self.get_data(path).decode("utf-8")
        return compile(mutated(source, self._number), path, "exec", dont_inherit=True)


def _fails_core_tests() -> bool:
    tests = [_core().parents[1] / "tests" / room for room in ROOMS]
    configuration = _core().parents[2] / "pyproject.toml"
    if not all(path.is_dir() for path in [*tests, configuration.parent]):
        return False  # installed from a wheel: the contract tier alone
    import pytest  # noqa: PLC0415 -- not needed to count mutants

    _hurry_hypothesis()
    arguments = ["-q", "-x", "-c", str(configuration), "-p", "no:cacheprovider"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # this module is running
    with redirect_stdout(io.StringIO()):
        return pytest.main([*arguments, *map(str, tests)]) != pytest.ExitCode.OK


def _hurry_hypothesis() -> None:
    """Let a property that fails fail at once: nobody reads the smallest example."""
    from hypothesis import Phase, settings  # noqa: PLC0415 -- the checkout's tests bring it

    settings.register_profile(
        "mutants", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True
    )
    settings.load_profile("mutants")


def _breaks_a_rule() -> bool:
    from wlk_conformance.rules import rule_tests  # noqa: PLC0415 -- with the mistake in it
    from wlk_conformance.runner import examine  # noqa: PLC0415
    from wlk_conformance.scripted.plugin import SCRIPTED_SPEC  # noqa: PLC0415
    from wlk_conformance.subject import Subject  # noqa: PLC0415
    from wlk_conformance.suite import BackendConformance  # noqa: PLC0415

    def load(model: str | None = None, **options: Any) -> Backend:
        resolved = SCRIPTED_SPEC.backend_options(options)
        return SCRIPTED_SPEC.load(model, **resolved)

    suite = BackendConformance()
    for policy in SCRIPTED_SPEC.policies:
        subject = Subject(spec=SCRIPTED_SPEC, load=load, options={"policy": policy})
        for declared, test in rule_tests(BackendConformance):
            with redirect_stdout(io.StringIO()):
                outcome = examine(declared, partial(test, suite), subject)
            if outcome.status == "fail":
                return True
        subject.close()
    return False


def _core() -> Path:
    spec = importlib.util.find_spec("wlk_core")
    if spec is None or spec.origin is None:
        raise ImportError("wlk_core is no package of files")
    return Path(spec.origin).parent


if __name__ == "__main__":
    main()
