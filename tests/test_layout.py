"""Checks across distributions that no linter makes: layout, imports, versions and paths."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
import tomllib

import grimp
from importlinter.api import read_configuration
import pytest

ROOT = Path(__file__).resolve().parents[1]
# docs/architecture.md describes each of them.
DECLARATIONS = {"plugin", "options", "models", "languages"}
FILES = {"__init__.py", "checkpoint.py", "backend.py", "routes.py", "py.typed"}
FILES |= {f"{name}.py" for name in DECLARATIONS}
FOREIGN = {"torch", "mlx", "ctranslate2", "openai_api", "detect_heads"}  # may import a framework
ROOMS = FOREIGN | {"engine", "digits", "heads", "realtime"}
FRAMEWORKS = {"torch", "mlx", "transformers", "ctranslate2", "faster_whisper", "openai"}
# All that a declaration may import, so that listing the backends stays fast.
LIGHT = {"__future__", "collections.abc", "platform", "typing", "wlk_core.plugins", "attrs"}
LIGHT |= {"wlk_core.languages", "wlk_voxtral.specs"}
PROJECTS = {
    path.parent.relative_to(ROOT).as_posix(): tomllib.loads(path.read_text(encoding="utf-8"))
    for pattern in ("*/pyproject.toml", "plugins/*/pyproject.toml")
    for path in sorted(ROOT.glob(pattern))
}


def packages(group):
    """Return the import package of every distribution that has an entry point of this group."""
    folders = [
        folder
        for folder, table in PROJECTS.items()
        if folder.startswith("plugins/") and group in table["project"].get("entry-points", ())
    ]
    return [
        pytest.param(ROOT / folder / "src" / Path(folder).name.replace("-", "_"), id=folder)
        for folder in folders
    ]


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


@pytest.mark.parametrize("package", packages("wlk.plugins"))
def test_a_plugin_has_the_files_and_folders_of_the_plan(package):
    """A reader who knows one plugin finds every part of another; see docs/architecture.md."""
    entries = [entry for entry in package.iterdir() if entry.name != "__pycache__"]
    files = {entry.name for entry in entries if entry.is_file()}

    assert set() == files - FILES
    assert set() == {entry.name for entry in entries if entry.is_dir()} - ROOMS
    assert {"__init__.py", "plugin.py", "py.typed"} <= files


@pytest.mark.parametrize("package", packages("wlk.protocols"))
def test_the_hook_of_a_protocol_is_in_its_routes(package):
    """Other files of the package contain the messages of its clients."""
    points = PROJECTS[f"plugins/{package.parents[1].name}"]["project"]["entry-points"]

    assert {"__init__.py", "py.typed", "routes.py"} < {entry.name for entry in package.iterdir()}
    assert {f"{package.name}.routes"} == set(points["wlk.protocols"].values())


@pytest.mark.parametrize("package", packages("wlk.plugins"))
def test_a_plugin_imports_a_framework_in_its_folder_only_and_declares_without(package):
    """Other code runs on any framework, each of which has its own folder."""
    allowed = LIGHT | {package.name, *(f"{package.name}.{name}" for name in DECLARATIONS)}
    for path in sorted(package.rglob("*.py")):
        imports, room = imports_of(path), path.relative_to(package).parts[0]
        if room not in FOREIGN:
            assert set() == {name.split(".")[0] for name in imports} & FRAMEWORKS, path
        if room.removesuffix(".py") in DECLARATIONS:
            assert set() == imports - allowed, path


def test_no_modules_import_each_other():
    """Imports in functions and for types only, which lint-imports ignores, count as well."""
    packages = read_configuration(str(ROOT / ".importlinter"))["session_options"]["root_packages"]
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    circle = []
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))

    assert [] == circle
    patterns = ("*/src/*/__init__.py", "plugins/*/src/*/__init__.py")
    found = {path.parent.name for pattern in patterns for path in ROOT.glob(pattern)}
    assert found == set(packages)  # a new distribution takes part in the contracts


def test_a_plugin_installs_by_name_from_the_checkout():
    """constraints.txt names the folder of every distribution, so that pip finds the siblings."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    named = {line.split(" @ file:./")[1]: line.split(" @ file:./")[0] for line in lines[2:]}

    assert named == {folder: table["project"]["name"] for folder, table in PROJECTS.items()}


def test_every_distribution_has_the_same_version_and_caps_the_core():
    """The changelog names the version, and each distribution the releases of wlk-core it needs."""
    projects = [table["project"] for table in PROJECTS.values()]
    (version,) = {project["version"] for project in projects}

    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for project in projects:
        if project["name"] not in {"wlk-core", "wlk-whisper-digits"}:  # the latter is data only
            needs = [item for item in project["dependencies"] if item.startswith("wlk-core")]
            assert ["wlk-core>=0.1,<0.2"] == needs, project["name"]


def test_the_project_speaks_of_itself_alone():
    """No file of the project contains a path of some machine."""
    marks = [f"/{folder}/" for folder in ("work", "root", "home", "tmp")]
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        is_built = parts[0].startswith(".") or {"build", "dist", "site", ".nox", ".venv"} & {*parts}
        if path.suffix in {".py", ".pyi", ".md", ".toml", ".json", ".yml"} and not is_built:
            text = path.read_text(encoding="utf-8")
            assert not [mark for mark in marks if mark in text], path
