"""Loaders whose import fails: the package to blame, and the command that repairs it."""

from __future__ import annotations

from typing import Any

import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, OptionError

FRAMEWORK = """
def load(spec, model, **options):
    import {module}

@hookimpl
def wlk_backends():
    yield spec("toy", requires={{"{distribution}": "pip install {distribution}"}})
"""


def test_an_absent_framework_makes_its_backend_unavailable(site: Any) -> None:
    """An import that fails inside the loader becomes BackendUnavailable with the command to run."""
    code = FRAMEWORK.format(module="no_such_framework", distribution="no-such-framework")
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value) == (
        "backend toy cannot be used: No module named 'no_such_framework'; "
        "install it with: pip install no-such-framework"
    )
    assert isinstance(caught.value.__cause__, ImportError)


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
    """Errors at import, of the loader's module or inside the loader, are reported in one line."""
    (site.folder / "toy_framework.py").write_text(f"raise {raised}\n")
    late = "    import toy_framework\n" if is_late else ""
    early = "" if is_late else "import toy_framework\n"
    (site.folder / "toy_backend_plugin.py").write_text(
        f"{early}def load(spec, model, **options):\n{late}    return model\n"
    )
    site.offer(
        "wlk-toy", "toy", load="toy_backend_plugin:load", requires={"attrs": "pip install toy"}
    )

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value) == (
        f"backend toy cannot be used: {reason}; it is installed but does not work, "
        "reinstall it with: pip install toy --force-reinstall"
    )


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        ("wlk_toy_plugin:open", "expected a function 'open' in wlk_toy_plugin, which has none"),
        ("wlk_toy_plugin:__name__", "expected a function '__name__' in .*, got 'wlk_toy_plugin'"),
        ("wlk_toy_plugin.backend:load", "No module named 'wlk_toy_plugin.backend'; 'wlk_toy_.*"),
    ],
    ids=["no function", "a name", "no module"],
)
def test_a_loader_that_is_not_there_makes_its_backend_unavailable(
    site: Any, loader: str, reason: str
) -> None:
    """The message says to reinstall a plugin that names a loader it does not contain."""
    site.offer("wlk-toy", "toy", load=loader)
    remedy = "reinstall the plugin with: pip install wlk-toy --force-reinstall"

    with pytest.raises(
        BackendUnavailable, match=f"^backend toy cannot be used: {reason}; {remedy}$"
    ):
        site.registry().load_backend("toy")


@pytest.mark.parametrize("error", [RuntimeError, OSError, OptionError, ModelNotFoundError])
def test_what_a_loader_raises_itself_is_passed_on(site: Any, error: type[Exception]) -> None:
    """Only a failing import is blamed on the installation."""
    site.install(
        "wlk-toy",
        ["toy"],
        f"""
        from wlk_core.errors import ModelNotFoundError, OptionError

        def load(spec, model, **options):
            raise {error.__name__}("damaged")

        @hookimpl
        def wlk_backends():
            yield spec("toy")
        """,
    )

    with pytest.raises(error, match="damaged") as caught:
        site.registry().load_backend("toy")
    note = "raised by the loader of backend toy of wlk-toy"
    assert getattr(caught.value, "__notes__", [note]) == [note]


def test_a_loader_that_returns_nothing_makes_its_backend_unavailable(site: Any) -> None:
    """The message says to update its plugin."""
    code = "def load(*_): ...\n\n@hookimpl\ndef wlk_backends():\n    yield spec('toy')\n"
    site.install("wlk-toy", ["toy"], code)

    with pytest.raises(BackendUnavailable, match="wlk_toy_plugin:load returned None; update it"):
        site.registry().load_backend("toy")


def test_an_error_of_this_project_at_import_is_passed_on(site: Any) -> None:
    """A module that checks its environment can give its own reason."""
    (site.folder / "toy_backend_plugin.py").write_text(
        "from wlk_core.errors import BackendUnavailable\n"
        "raise BackendUnavailable('mlx computes nothing here')\n"
    )
    site.offer("wlk-toy", "toy", load="toy_backend_plugin:load")

    with pytest.raises(BackendUnavailable, match=r"^mlx computes nothing here$"):
        site.registry().load_backend("toy")
