"""Backends that plugins offer: found by name, chosen by default, loaded, or missing."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
import re
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core import BackendUnavailable, OptionError
from wlk_core.registry import Registry, known_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[3]
MISSING = {"not-installed": "pip install it"}


def test_finding_a_backend_imports_only_its_plugin(site: Any) -> None:
    """Only the entry point with the name of the backend is loaded."""
    site.offer("wlk-toy", "toy")
    site.offer("wlk-other", "other")

    assert site.registry().spec("toy").name == "toy"
    assert "wlk_toy_plugin" in sys.modules
    assert "wlk_other_plugin" not in sys.modules


def test_loading_a_backend_leaves_the_output_of_the_program_alone(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a plugin or another thread prints meanwhile goes where the program sends it."""
    code = "import sys\nprint('at import')\nSEEN = sys.stdout\n@hookimpl\ndef wlk_backends():\n"
    site.install("wlk-loud", ["loud"], f"{code}    yield spec('loud')")
    output = sys.stdout

    site.registry().load_backend("loud")

    assert output is sys.modules["wlk_loud_plugin"].SEEN
    assert capsys.readouterr() == ("at import\n", "")


def test_a_program_can_guard_its_output_from_plugins(site: Any) -> None:
    """The guard is entered while plugins are imported, asked for specs, and load models."""
    site.offer("wlk-toy", "toy")
    entered = []

    @contextmanager
    def guard() -> Iterator[None]:
        entered.append("toy_plugin" in str(sys.modules.get("wlk_toy_plugin")))
        yield

    Registry(site.entry_points, guard=guard).load_backend("toy")

    assert entered == [False, True]


def test_several_entry_points_of_one_module_are_one_plugin(site: Any) -> None:
    """A plugin with several backends is loaded once and shown once."""
    site.offer("wlk-toy", "toy", "toy-large")
    registry = site.registry()

    assert registry.spec("toy-large").name == "toy-large"
    assert len(registry.plugins()) == 1


def test_a_backend_without_an_entry_point_of_its_name_is_found(site: Any) -> None:
    """Every plugin is loaded if no entry point has the backend's name."""
    site.install("wlk-toy", ["something"], "@hookimpl\ndef wlk_backends():\n    yield spec('toy')")

    assert site.registry().spec("toy").name == "toy"


def test_an_editable_install_beside_a_wheel_is_one_plugin(site: Any) -> None:
    """Equal entry points of one distribution are merged, even if its name is spelt in two ways."""
    site.offer("wlk-toy", "toy")
    code = "@hookimpl\ndef wlk_backends():\n    yield spec('toy')"
    site.install("wlk_toy", ["toy"], code, module="wlk_toy_plugin", version="0.1.1")
    registry = site.registry()

    assert len(registry.plugins()) == 1
    assert registry.spec("toy").name == "toy"


def test_the_default_backend_is_the_usable_one_with_the_highest_preference(site: Any) -> None:
    """A preferred backend whose framework is missing gives way to the next."""
    site.offer("wlk-low", "low", preference=1)
    site.offer("wlk-high", "high", preference=5)
    site.offer("wlk-highest", "highest", preference=9, requires=MISSING)

    assert site.registry().default_backend().name == "high"


def test_a_backend_without_a_preference_is_never_the_default(site: Any) -> None:
    """A backend that sends audio away is used only when it is named."""
    site.offer("wlk-toy", "away", preference=None)
    registry = site.registry()

    assert registry.spec("away").name == "away"
    assert registry.usable() == ()
    with pytest.raises(BackendUnavailable, match="away is used only when it is named, with --back"):
        registry.default_backend()


def test_with_no_usable_backend_the_preferred_one_names_what_is_missing(site: Any) -> None:
    """If every backend lacks its framework, the error has the preferred one's install command."""
    site.offer("wlk-toy", "toy", requires=MISSING)

    with pytest.raises(
        BackendUnavailable,
        match="backend toy cannot be used: not-installed is not installed; "
        "install it with: pip install it",
    ):
        site.registry().default_backend()


def test_loading_gives_the_model_and_every_option(site: Any) -> None:
    """Defaults are filled in; a path is passed as a string, and an empty one is refused."""
    site.install(
        "wlk-toy",
        ["toy"],
        """
        from wlk_core.plugins import Option

        @hookimpl
        def wlk_backends():
            yield spec("toy", default_model="small", options=[Option(name="device", default="cpu")])
        """,
    )
    registry = site.registry()
    usual: Any = registry.load_backend("toy")
    chosen: Any = registry.load_backend("toy", Path("models") / "m", device="gpu")

    assert (usual.model, usual.options) == ("small", {"device": "cpu"})
    assert (chosen.model, chosen.options) == (str(Path("models") / "m"), {"device": "gpu"})
    with pytest.raises(OptionError, match="a model is a name or a path, got ''"):
        registry.load_backend("toy", "")


@pytest.mark.parametrize("name", sorted(known_plugins("backend")))
@pytest.mark.parametrize("installs", [["wlk-toy"], []], ids=["another backend", "no backend"])
def test_a_backend_of_this_project_comes_with_its_install_command(
    site: Any, name: str, installs: list[str]
) -> None:
    """The error for a known backend has its install command, whatever else is installed."""
    for distribution in installs:
        site.offer(distribution, "toy")

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().spec(name)

    assert str(caught.value) == (
        f"no backend called {name!r}; installed: {'toy' if installs else 'none'}; "
        f"install it with: {known_plugins('backend')[name]}"
    )


@pytest.mark.parametrize(
    ("name", "guess"), [("qwen3", "qwen3-simul"), ("voxtral", "voxtral-hf"), ("wisper", "whisper")]
)
def test_the_beginning_of_a_name_is_completed_to_the_shortest(
    site: Any, name: str, guess: str
) -> None:
    """Variants for other hardware have longer names; what is misspelt is guessed."""
    site.offer("wlk-toy", "toy")

    with pytest.raises(BackendUnavailable, match=re.escape(f"(did you mean {guess}?)")):
        site.registry().spec(name)


def test_every_plugin_of_this_project_has_an_install_command() -> None:
    """Every entry point of every plugin is known, and its command names the distribution."""
    projects = [
        *REPOSITORY.glob("plugins/*/pyproject.toml"),
        REPOSITORY / "conformance/pyproject.toml",
    ]
    offered: dict[str, str] = {}
    for path in projects:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        names = project.get("entry-points", {}).get("wlk.plugins", {})
        models = [name for name in names if "." not in name]  # not commands and protocols
        offered |= dict.fromkeys(models, project["name"])

    kinds = ("backend", "diarizer", "translator", "turn-detector", "text-filter")
    known = {name: command for kind in kinds for name, command in known_plugins(kind).items()}
    assert sorted(offered) == sorted(known)
    for name, command in known.items():
        assert re.fullmatch(rf"pip install ('{offered[name]}\[[a-z]+\]'|{offered[name]})", command)
