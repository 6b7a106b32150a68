from __future__ import annotations

from importlib import metadata
from pathlib import Path
import re
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core import (
    BackendSpec,
    BackendUnavailable,
    ModelNotFoundError,
    OptionError,
    load_backend,
)
from wlk_core.registry import Registry, known_backends, missing_requirements

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[3]
TOY = """
@hookimpl
def wlk_backends():
    yield spec("toy")
"""
BROKEN = "import not_a_module\n"


def test_a_backend_is_found_by_its_name(site: Any) -> None:
    """A plugin's backend is found under the name it declares."""
    site.install("wlk-toy", ["toy"], TOY)

    assert site.registry().spec("toy").name == "toy"


def test_a_plugin_shows_its_distribution_and_version(site: Any) -> None:
    """A working plugin is a row with its distribution, version and backends."""
    site.install("wlk-toy", ["toy"], TOY, version="1.2.3")

    (row,) = site.registry().plugins()

    assert (row.name, row.distribution, row.version, row.error) == (
        "toy",
        "wlk-toy",
        "1.2.3",
        None,
    )
    assert [spec.name for spec in row.backends] == ["toy"]


def test_finding_a_backend_imports_only_its_plugin(site: Any) -> None:
    """The entry point called like the backend is loaded and no other."""
    site.install("wlk-toy", ["toy"], TOY)
    site.install("wlk-other", ["other"], TOY.replace("toy", "other"))

    site.registry().spec("toy")

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


def test_a_broken_plugin_is_a_row_and_harms_no_other(site: Any) -> None:
    """A plugin that does not import is kept with its reason; the others work."""
    site.install("wlk-broken", ["broken"], BROKEN)
    site.install("wlk-toy", ["toy"], TOY)
    registry = site.registry()

    assert [(row.distribution, row.error) for row in registry.plugins()] == [
        ("wlk-broken", "No module named 'not_a_module'"),
        ("wlk-toy", None),
    ]
    assert [spec.name for spec in registry.specs()] == ["toy"]


def test_a_broken_plugin_is_an_error_when_its_backend_is_loaded(site: Any) -> None:
    """The error for a broken plugin has the reason and the command that removes the plugin."""
    site.install("wlk-broken", ["broken"], BROKEN)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().spec("broken")

    assert str(caught.value) == (
        "wlk-broken 0.1.0 is installed but could not be loaded: No module named 'not_a_module' "
        "(WLK_STRICT_PLUGINS=1 shows the traceback; remove it with: pip uninstall wlk-broken)"
    )


def test_strict_mode_raises_what_the_plugin_raised(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WLK_STRICT_PLUGINS=1 lets a plugin's own exception through."""
    site.install("wlk-broken", ["broken"], BROKEN)
    monkeypatch.setenv("WLK_STRICT_PLUGINS", "1")

    with pytest.raises(ModuleNotFoundError, match="not_a_module"):
        site.registry().plugins()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", "it implements none of the hooks wlk_backends, wlk_diarizers, wlk_translators"),
        (
            "@hookimpl\ndef wlk_backends():\n    return ['toy']\n",
            "wlk_backends returns BackendSpec objects, got str",
        ),
        (
            "@hookimpl\ndef wlk_backends():\n    return [spec('toy'), spec('toy')]\n",
            "it offers the backend 'toy' 2 times",
        ),
        (
            "@hookimpl\ndef wlk_backends():\n    raise RuntimeError('first\\nsecond')\n",
            "RuntimeError: first second",
        ),
        (
            "@hookimpl\ndef wlk_backends():\n    return [spec('Toy')]\n",
            "ValueError: a name is in [a-z][a-z0-9-]*, got 'Toy'",
        ),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("@hookimpl\ndef wlk_backends(surprise):\n    return []\n", "PluginValidationError"),
    ],
    ids=["no hook", "no spec", "one name twice", "raising", "bad name", "exit", "unknown argument"],
)
def test_a_plugin_that_breaks_the_rules_is_named_with_its_fault(
    site: Any, code: str, error: str
) -> None:
    """A plugin that imports but offers something else is listed with the reason, in one line."""
    site.install("wlk-odd", ["odd"], code)

    (row,) = site.registry().plugins()

    assert row.backends == ()
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error


def test_a_plugin_that_fails_is_not_left_half_registered(site: Any) -> None:
    """A plugin whose hook raised takes no part in later calls."""
    site.install("wlk-odd", ["odd"], "@hookimpl\ndef wlk_backends():\n    raise RuntimeError\n")
    registry = site.registry()
    registry.plugins()

    assert not registry._manager.get_plugins()


@pytest.mark.parametrize("api", [0, 99])
def test_a_plugin_of_another_api_is_refused(site: Any, api: int) -> None:
    """The error for another plugin API names that API and the ones that are supported."""
    site.install(
        "wlk-old", ["old"], f"@hookimpl\ndef wlk_backends():\n    return [spec('old', api={api})]\n"
    )

    with pytest.raises(
        BackendUnavailable,
        match=rf"wlk-old 0.1.0 .*backend 'old' speaks plugin API {api}, this wlk-core speaks 1",
    ):
        site.registry().spec("old")


def test_two_distributions_with_one_backend_are_an_error_when_it_is_used(site: Any) -> None:
    """The error for a name that two distributions offer names both; other names still work."""
    site.install("wlk-first", ["toy"], TOY)
    site.install("wlk-second", ["toy"], TOY + '    yield spec("fine")\n')
    registry = site.registry()

    with pytest.raises(BackendUnavailable) as caught:
        registry.spec("toy")

    assert str(caught.value) == (
        "backend 'toy' is offered by wlk-first 0.1.0 and wlk-second 0.1.0; "
        "keep one: pip uninstall wlk-second"
    )
    assert registry.spec("fine").name == "fine"
    assert [spec.name for spec in registry.specs()] == ["fine"]
    assert registry.conflicts() == {"toy": ("wlk-first 0.1.0", "wlk-second 0.1.0")}


def test_an_editable_install_beside_a_wheel_is_one_plugin(site: Any) -> None:
    """Equal entry points of one distribution, its name spelt either way, are merged."""
    site.install("wlk-toy", ["toy"], TOY)
    site.install("wlk_toy", ["toy"], TOY, module="wlk_toy_plugin", version="0.1.1")

    registry = site.registry()

    assert len(registry.plugins()) == 1
    assert registry.spec("toy").name == "toy"


def test_an_unknown_backend_names_the_installed_ones(site: Any) -> None:
    """The error for an unknown name lists the installed backends and what did not load."""
    site.install("wlk-toy", ["toy"], TOY)
    site.install("wlk-broken", ["broken"], BROKEN)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().spec("nope")

    assert str(caught.value) == (
        "no backend called 'nope'; installed: toy; "
        "could not be loaded: wlk-broken (see: wlk-core plugins)"
    )


def test_a_misspelt_backend_is_guessed(site: Any) -> None:
    """The error for a misspelt name suggests the installed backend with a similar name."""
    site.install("wlk-toy", ["toy"], TOY)

    with pytest.raises(BackendUnavailable, match=r"did you mean toy\?"):
        site.registry().spec("tyo")


@pytest.mark.parametrize("name", sorted(known_backends()))
@pytest.mark.parametrize("installs", [["wlk-toy"], []], ids=["another backend", "no backend"])
def test_a_backend_of_this_project_comes_with_its_install_command(
    site: Any, name: str, installs: list[str]
) -> None:
    """The error for a known backend has its install command, whatever else is installed."""
    for distribution in installs:
        site.install(distribution, ["toy"], TOY)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().spec(name)

    assert str(caught.value) == (
        f"no backend called {name!r}; installed: {'toy' if installs else 'none'}; "
        f"install it with: {known_backends()[name]}"
    )


def test_a_misspelt_backend_of_this_project_is_guessed_and_can_be_installed(site: Any) -> None:
    """A known backend with a similar name is suggested, with its install command."""
    site.install("wlk-toy", ["toy"], TOY)

    with pytest.raises(
        BackendUnavailable, match=r"did you mean voxtral-hf\?\); install voxtral-hf"
    ):
        site.registry().spec("voxtral-fh")


def test_every_plugin_of_this_project_has_an_install_command() -> None:
    """Each entry point of each plugin is known, and its command names the distribution."""
    projects = [
        *REPOSITORY.glob("plugins/*/pyproject.toml"),
        REPOSITORY / "conformance/pyproject.toml",
    ]
    offered: dict[str, str] = {}
    for path in projects:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        names = project.get("entry-points", {}).get("wlk.plugins", {})
        offered |= dict.fromkeys(names, project["name"])

    assert sorted(offered) == sorted(known_backends())
    for name, command in known_backends().items():
        assert re.fullmatch(rf"pip install ('{offered[name]}\[[a-z]+\]'|{offered[name]})", command)


@pytest.mark.parametrize("find", [lambda r: r.spec("toy"), Registry.default_backend])
def test_without_any_plugin_the_error_has_an_install_command(
    site: Any, find: Callable[[Registry], object]
) -> None:
    """With no plugin at all, the error has a command that installs one."""
    with pytest.raises(BackendUnavailable) as caught:
        find(site.registry())

    assert str(caught.value) == (
        "no backend is installed: wlk-core carries no model of its own; "
        "install one, for example: pip install wlk-whisper"
    )


def test_with_only_broken_plugins_they_are_named(site: Any) -> None:
    """Where plugins are installed and none works, the error names them."""
    site.install("wlk-broken", ["broken"], BROKEN)

    with pytest.raises(BackendUnavailable, match=r"no backend works; could not be .*wlk-broken"):
        site.registry().default_backend()


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


def test_missing_requirements_are_read_from_metadata(site: Any) -> None:
    """A missing requirement comes with the command that installs it; a present one is left out."""
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("toy", requires={"attrs": "pip install attrs", "nope-x": "pip install x"})
        """,
    )

    assert missing_requirements(site.registry().spec("toy")) == {"nope-x": "pip install x"}


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
    """Backends get text; what is neither a text nor a path is refused before they load."""
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
    with pytest.raises(OptionError, match=r"^a model is a text or a path; got int \("):
        registry.load_backend("toy", 3)
    with pytest.raises(OptionError, match="got an empty text, leave it out for the default"):
        registry.load_backend("toy", "")


def test_an_unknown_option_is_refused_before_the_model_loads(site: Any) -> None:
    """An undeclared option raises OptionError."""
    site.install("wlk-toy", ["toy"], TOY)

    with pytest.raises(OptionError, match="no option is called 'depth'"):
        site.registry().load_backend("toy", depth=3)


FRAMEWORK = """
def load(spec, model, **options):
    import {module}

@hookimpl
def wlk_backends():
    yield spec("toy", requires={{"{distribution}": "pip install {distribution}"}})
"""


def test_an_absent_framework_makes_its_backend_unavailable(site: Any) -> None:
    """An import that fails inside load becomes BackendUnavailable with what installs it."""
    code = FRAMEWORK.format(module="no_such_framework", distribution="no-such-framework")
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value) == (
        "backend toy cannot be used: No module named 'no_such_framework'; "
        "install it with: pip install no-such-framework"
    )
    assert isinstance(caught.value.__cause__, ImportError)


def test_a_broken_framework_is_not_taken_for_an_absent_one(site: Any) -> None:
    """A framework whose metadata is there and whose import fails is to be reinstalled."""
    code = FRAMEWORK.format(module="no_such_framework", distribution="attrs")
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(
        BackendUnavailable,
        match="does not work, reinstall it with: pip install attrs --force",
    ):
        site.registry().load_backend("toy")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("ImportError('no\\nsymbol')", "no symbol"),
        ("OSError('libtorch.so: undefined symbol')", "OSError: libtorch.so: undefined symbol"),
        ("RuntimeError('built for another\\n  torch')", "RuntimeError: built for another torch"),
        ("AttributeError()", "AttributeError"),
        ("SystemExit('no CUDA')", "SystemExit: no CUDA"),
    ],
    ids=["ImportError", "OSError", "RuntimeError", "no text", "SystemExit"],
)
@pytest.mark.parametrize("is_late", [False, True], ids=["with its module", "in the call"])
def test_whatever_a_framework_raises_at_import_makes_its_backend_unavailable(
    site: Any, raised: str, reason: str, *, is_late: bool
) -> None:
    """The import of a loader's module, or one inside the loader, fails in one line."""
    (site.folder / "toy_framework.py").write_text(f"raise {raised}\n")
    late = "    import toy_framework\n" if is_late else ""
    early = "" if is_late else "import toy_framework\n"
    (site.folder / "toy_backend_plugin.py").write_text(
        f"{early}def load(spec, model, **options):\n{late}    return model\n"
    )
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("toy", load="toy_backend_plugin:load", requires={"attrs": "pip install toy"})
        """,
    )

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value) == (
        f"backend toy cannot be used: {reason}; it is installed but does not work, "
        "reinstall it with: pip install toy --force-reinstall"
    )


def test_the_reason_is_what_a_framework_wrapped(site: Any) -> None:
    """The error of a lazy import that hides another one is not the reason."""
    (site.folder / "toy_framework.py").write_text(
        "try:\n"
        "    raise OSError('undefined symbol')\n"
        "except OSError as error:\n"
        "    raise ImportError('set the logging verbosity to DEBUG') from error\n"
    )
    code = FRAMEWORK.format(module="toy_framework", distribution="attrs")
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(BackendUnavailable, match="cannot be used: OSError: undefined symbol; it"):
        site.registry().load_backend("toy")


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        ("wlk_toy_plugin:open", "wlk_toy_plugin has no function 'open'"),
        ("wlk_toy_plugin.backend:load", "No module named 'wlk_toy_plugin.backend'; 'wlk_toy_.*"),
    ],
    ids=["no function", "no module"],
)
def test_a_loader_that_is_not_there_makes_its_backend_unavailable(
    site: Any, loader: str, reason: str
) -> None:
    """A plugin that names a loader it does not have is to be reinstalled."""
    site.install(
        "wlk-toy",
        ["toy"],
        f"@hookimpl\ndef wlk_backends():\n    yield spec('toy', load={loader!r})\n",
    )

    remedy = "reinstall the plugin with: pip install wlk-toy --force-reinstall"

    with pytest.raises(
        BackendUnavailable, match=f"^backend toy cannot be used: {reason}; {remedy}$"
    ):
        site.registry().load_backend("toy")


def test_a_framework_that_another_package_breaks_is_not_blamed(site: Any) -> None:
    """The package that fails to import is named, where the backend does not require it."""
    (site.folder / "toy_framework.py").write_text("import toy_audio_framework\n")
    (site.folder / "toy_audio_framework.py").write_text("raise OSError('undefined symbol')\n")
    info = site.folder / "toy_audio-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-audio\nVersion: 2.1\n")
    (info / "top_level.txt").write_text("toy_audio_framework\n")
    code = FRAMEWORK.format(module="toy_framework", distribution="attrs")
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value) == (
        "backend toy cannot be used: OSError: undefined symbol; toy-audio is installed but does "
        "not work here, update it with: pip install --upgrade toy-audio, or remove it with: "
        "pip uninstall toy-audio"
    )


def test_a_broken_package_that_the_plugin_requires_is_not_to_be_removed(site: Any) -> None:
    """Removing what the backend cannot do without would be bad advice."""
    (site.folder / "toy_engine.py").write_text("raise OSError('undefined symbol')\n")
    for name, requires in [("toy-framework", "Requires-Dist: toy_engine>=2\n"), ("toy-engine", "")]:
        info = site.folder / f"{name.replace('-', '_')}-2.1.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n{requires}"
        (info / "METADATA").write_text(text)
        (info / "top_level.txt").write_text(f"{name.replace('-', '_')}\n")
    code = FRAMEWORK.format(module="toy_engine", distribution="toy-framework")
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value) == (
        "backend toy cannot be used: OSError: undefined symbol; toy-engine is installed but does "
        "not work here, reinstall it with: pip install --upgrade --force-reinstall toy-engine"
    )


@pytest.mark.parametrize("error", [RuntimeError, OSError, OptionError, ModelNotFoundError])
def test_what_a_loader_raises_itself_is_passed_on(site: Any, error: type[Exception]) -> None:
    """Only a failing import is a matter of the installation."""
    site.install(
        "wlk-toy",
        ["toy"],
        f"""
        from wlk_core.errors import *

        def load(spec, model, **options):
            raise {error.__name__}("damaged")

        @hookimpl
        def wlk_backends():
            yield spec("toy")
        """,
    )

    with pytest.raises(error, match="damaged"):
        site.registry().load_backend("toy")


def test_an_error_of_this_project_at_import_is_passed_on(site: Any) -> None:
    """A module that checks its surroundings words its own reason."""
    (site.folder / "toy_backend_plugin.py").write_text(
        "from wlk_core.errors import BackendUnavailable\n"
        "raise BackendUnavailable('mlx computes nothing here')\n"
    )
    site.install(
        "wlk-toy",
        ["toy"],
        """
        @hookimpl
        def wlk_backends():
            yield spec("toy", load="toy_backend_plugin:load")
        """,
    )

    with pytest.raises(BackendUnavailable, match=r"^mlx computes nothing here$"):
        site.registry().load_backend("toy")


@pytest.mark.parametrize("load", ["", "package", "package:", ":load", "a.b:c.d", "a b:c", "a:b:c"])
def test_a_loader_is_named_as_module_and_function(load: str) -> None:
    """Anything else fails where the backend is declared."""
    with pytest.raises(ValueError, match=r'load names a function as "package.module:function"'):
        BackendSpec(name="toy", api=1, summary="a toy", load=load)


def test_a_failing_framework_still_lists(site: Any) -> None:
    """Listing works while loading does not."""
    code = FRAMEWORK.format(module="no_such_framework", distribution="attrs")
    site.install("wlk-toy", ["toy"], code)

    assert [spec.name for spec in site.registry().specs()] == ["toy"]


def test_the_owner_of_a_backend_is_its_plugin(site: Any) -> None:
    """A backend leads back to the distribution it came from."""
    site.install("wlk-toy", ["toy"], TOY)

    assert site.registry().owner("toy").title == "wlk-toy 0.1.0"


def test_load_backend_uses_what_is_installed(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's own load_backend reads the entry points of this environment."""
    site.install("wlk-toy", ["toy"], TOY)
    points = metadata.entry_points
    found = next(iter(metadata.distributions(path=[str(site.folder)]))).entry_points
    monkeypatch.setattr(
        metadata,
        "entry_points",
        lambda **chosen: found if chosen == {"group": "wlk.plugins"} else points(**chosen),
    )

    loaded: Any = load_backend("toy", "large")

    assert ("large", {}) == (loaded.model, loaded.options)
