"""Checks across distributions that no linter makes: layout, imports, versions and paths."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
import re
import tomllib

import grimp
from importlinter.api import read_configuration
import pytest

ROOT = Path(__file__).resolve().parents[1]
# docs/architecture.md describes each of them.
DECLARATIONS = {"plugin", "options", "models", "languages"}
FILES = {"__init__.py", "checkpoint.py", "backend.py", "protobuf.py", "routes.py", "py.typed"}
FILES |= {f"{name}.py" for name in DECLARATIONS}
FRAMEWORK_FOLDERS = {"torch", "mlx", "ctranslate2", "openai_api", "detect_heads"}
FOLDERS = FRAMEWORK_FOLDERS | {"engine", "digits", "heads", "realtime"}
FRAMEWORKS = {"torch", "mlx", "transformers", "ctranslate2", "faster_whisper", "openai"}
# All that a declaration may import, so that listing the plugins stays fast.
LIGHT = {"__future__", "collections.abc", "platform", "typing", "wlk_core.plugins", "attrs"}
LIGHT |= {"wlk_core.hookspecs", "wlk_core.languages", "wlk_voxtral.specs"}
LIGHT |= {"wlk_core.backend", "wlk_core.standard_options"}  # the scripted backend of the suite
GROUP = "wlk.plugins"
PROJECTS = {
    path.parent.relative_to(ROOT).as_posix(): tomllib.loads(path.read_text(encoding="utf-8"))
    for pattern in ("*/pyproject.toml", "plugins/*/pyproject.toml")
    for path in sorted(ROOT.glob(pattern))
}


def entry_points(folder):
    """Return the entry points of a distribution: the module of each name, by group."""
    return PROJECTS[folder]["project"].get("entry-points", {})


def package_of(folder):
    """Return the folder of a distribution's import package."""
    (package,) = (ROOT / folder / "src").glob("wlk_*")
    return package


def requirements(folder):
    """Return the names of the distributions that one requires, without its extras."""
    lines = PROJECTS[folder]["project"].get("dependencies", ())
    return {re.match(r"[\w-]+", line).group() for line in lines}


PLUGINS = [folder for folder in PROJECTS if entry_points(folder)]
PACKAGES = {package_of(folder).name for folder in PROJECTS}
PROTOCOLS = "plugins/wlk-protocols"
MODEL_PLUGINS = [f for f in PLUGINS if f.startswith("plugins/") and f != PROTOCOLS]


def imports_of(path):
    """Return the modules that a file imports, also in functions, but not for types only."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in typing_only:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing_only:
            found.add(node.module)
    return found


@pytest.mark.parametrize("folder", PLUGINS)
def test_a_plugin_is_declared_in_one_group(folder):
    """It names the module `plugin` for each thing that it offers, or `hookspecs` for a new hook."""
    assert set(entry_points(folder)) - {"pytest11"} == {GROUP}
    for name, module in entry_points(folder)[GROUP].items():
        expected = "hookspecs" if name.startswith("hookspecs.") else "plugin"
        assert module.rpartition(".")[2] == expected


@pytest.mark.parametrize("folder", PLUGINS)
def test_a_declaration_imports_nothing_heavy(folder):
    """Listing everything that is installed imports neither numpy, a framework nor a server."""
    package = package_of(folder)
    allowed = LIGHT | {f"{package.name}.{name}" for name in DECLARATIONS}
    modules = set(entry_points(folder)[GROUP].values())
    modules |= {f"{package.name}.{name}" for name in DECLARATIONS}
    for module in modules:
        path = package.parent / f"{module.replace('.', '/')}.py"
        if path.exists():
            assert imports_of(path) - allowed == set(), path


@pytest.mark.parametrize("folder", MODEL_PLUGINS)
def test_a_plugin_has_the_files_and_folders_of_the_plan(folder):
    """A reader who knows one plugin finds every part of another; see docs/architecture.md."""
    entries = [entry for entry in package_of(folder).iterdir() if entry.name != "__pycache__"]
    files = {entry.name for entry in entries if entry.is_file()}
    folders = {entry.name for entry in entries if entry.is_dir()}

    assert files - FILES == set()
    assert folders - FOLDERS == set()
    assert {"__init__.py", "plugin.py", "py.typed"} <= files


@pytest.mark.parametrize("folder", MODEL_PLUGINS)
def test_a_plugin_imports_a_framework_in_its_folder_only(folder):
    """Other code runs on any framework, each of which has its own folder."""
    package = package_of(folder)
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in FRAMEWORK_FOLDERS:
            imported = {name.split(".")[0] for name in imports_of(path)}
            assert imported & FRAMEWORKS == set(), path


def test_each_protocol_has_a_package_with_its_routes():
    """The package is named as the protocol; what several share is in two modules."""
    names = {name.removeprefix("protocol.") for name in entry_points(PROTOCOLS)[GROUP]}
    package = package_of(PROTOCOLS)
    entries = {entry.name for entry in package.iterdir() if entry.name != "__pycache__"}

    assert entries == {"__init__.py", "fields.py", "plugin.py", "py.typed", "utterance.py", *names}
    for name in names:
        assert (package / name / "routes.py").is_file()


def test_no_modules_import_each_other():
    """Imports in functions and for types only, which lint-imports ignores, count as well."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    circle = []
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))

    assert circle == []


def test_lint_imports_checks_every_package():
    """A new distribution takes part in the contracts of .importlinter."""
    options = read_configuration(str(ROOT / ".importlinter"))["session_options"]

    assert set(options["root_packages"]) == PACKAGES


def test_the_core_requires_nothing_that_a_backend_does_not_need():
    """Recordings, sessions and configuration bring requirements of their own, to wlk-live."""
    needed = requirements("core")

    assert needed <= {"attrs", "numpy", "pluggy", "platformdirs", "huggingface-hub"}


@pytest.mark.parametrize("folder", ["frameworks", "conformance", *MODEL_PLUGINS])
def test_a_backend_and_the_suite_require_no_application(folder):
    """Whoever uses the engine alone installs neither PyAV nor a server."""
    assert requirements(folder) & {"wlk-live", "wlk-serve", "wlk-bench"} == set()


def test_every_distribution_has_the_same_version_and_caps_the_others():
    """The changelog names it, and a requirement on another distribution ends before 0.2."""
    projects = [table["project"] for table in PROJECTS.values()]
    (version,) = {project["version"] for project in projects}

    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for project in projects:
        extras = project.get("optional-dependencies", {}).values()
        required = [*project.get("dependencies", ()), *chain.from_iterable(extras)]
        itself = f"{project['name']}["  # an extra that consists of others
        ours = [
            item for item in required if item.startswith("wlk-") and not item.startswith(itself)
        ]
        assert [item for item in ours if not item.endswith(">=0.1,<0.2")] == [], project["name"]
        if project["name"] not in {"wlk-core", "wlk-whisper-digits"}:  # the latter is data only
            assert "wlk-core>=0.1,<0.2" in project["dependencies"], project["name"]


def test_no_file_contains_a_path_of_a_machine():
    """No file of the project contains a path of a particular machine."""
    marks = [f"/{folder}/" for folder in ("work", "root", "home", "tmp")]
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        is_built = parts[0].startswith(".") or {"build", "dist", "site", ".nox", ".venv"} & {*parts}
        if path.suffix in {".py", ".pyi", ".md", ".toml", ".json", ".yml"} and not is_built:
            text = path.read_text(encoding="utf-8")
            assert not [mark for mark in marks if mark in text], path
