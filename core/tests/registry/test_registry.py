"""Backends that plugins offer: found by name, chosen by default and loaded."""

from __future__ import annotations

from pathlib import Path
import sys
from typing import Any

import pytest

from wlk_core import (
    BackendUnavailable,
    OptionError,
)

TOY = """
@hookimpl
def wlk_backends():
    yield spec("toy")
"""


def test_finding_a_backend_imports_only_its_plugin(site: Any) -> None:
    """The entry point called like the backend is loaded and no other."""
    site.install("wlk-toy", ["toy"], TOY)
    site.install("wlk-other", ["other"], TOY.replace("toy", "other"))

    assert site.registry().spec("toy").name == "toy"
    assert "wlk_toy_plugin" in sys.modules
    assert "wlk_other_plugin" not in sys.modules


def test_several_entry_points_of_one_module_are_one_plugin(site: Any) -> None:
    """A plugin with several backends is loaded once and shown once."""
    code = TOY + '    yield spec("toy-large")\n'
    site.install("wlk-toy", ["toy", "toy-large"], code)
    registry = site.registry()

    assert registry.spec("toy-large").name == "toy-large"
    assert len(registry.plugins()) == 1


def test_a_backend_without_an_entry_point_of_its_name_is_found(site: Any) -> None:
    """Every plugin is loaded where no entry point has the backend's name."""
    site.install("wlk-toy", ["something"], TOY)

    assert site.registry().spec("toy").name == "toy"


def test_an_editable_install_beside_a_wheel_is_one_plugin(site: Any) -> None:
    """Equal entry points of one distribution, its name spelt either way, are merged."""
    site.install("wlk-toy", ["toy"], TOY)
    site.install("wlk_toy", ["toy"], TOY, module="wlk_toy_plugin", version="0.1.1")

    registry = site.registry()

    assert len(registry.plugins()) == 1
    assert registry.spec("toy").name == "toy"


def test_the_default_backend_is_the_usable_one_with_the_highest_preference(site: Any) -> None:
    """A preferred backend whose framework is missing gives way to the next."""
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("low", preference=1)
            yield spec("high", preference=5)
            yield spec("highest", preference=9, requires={"not-installed": "pip install it"})
        """,
    )

    assert site.registry().default_backend().name == "high"


def test_a_backend_without_a_preference_is_never_the_default(site: Any) -> None:
    """A backend that sends audio away is used only when it is named."""
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("away", preference=None)
        """,
    )
    registry = site.registry()

    assert registry.spec("away").name == "away"
    assert registry.usable() == ()
    with pytest.raises(BackendUnavailable, match="away is used only when it is named, with --back"):
        registry.default_backend()


def test_with_no_usable_backend_the_preferred_one_names_what_is_missing(site: Any) -> None:
    """If every backend lacks its framework, the best one's install command is given."""
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("toy", requires={"not-installed": "pip install it"})
        """,
    )

    with pytest.raises(
        BackendUnavailable,
        match="backend toy cannot be used: not-installed is not installed; "
        "install it with: pip install it",
    ):
        site.registry().default_backend()


def test_loading_gives_the_model_and_every_option(site: Any) -> None:
    """A backend is loaded with the default model and the declared options filled in."""
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
    chosen: Any = registry.load_backend("toy", "large", device="gpu")

    assert (usual.model, usual.options) == ("small", {"device": "cpu"})
    assert (chosen.model, chosen.options) == ("large", {"device": "gpu"})


def test_a_path_object_is_a_model_too(site: Any) -> None:
    """Backends get text, and an empty one is refused before they load."""
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("toy")
        """,
    )
    registry = site.registry()
    loaded: Any = registry.load_backend("toy", Path("models") / "m")

    assert loaded.model == str(Path("models") / "m")
    with pytest.raises(OptionError, match="got an empty text, leave it out for the default"):
        registry.load_backend("toy", "")
