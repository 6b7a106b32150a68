"""Plugins that raise, exit, print or lie: each is a row with a remedy, and the others work."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from wlk_core import BackendUnavailable
from wlk_core.registry import Registry

TOY = """
@hookimpl
def wlk_backends():
    yield spec("toy")
"""
ENDINGS = {
    "exit with 0": "import sys; sys.exit(0)",
    "exit with text": "raise SystemExit('bye')",
    "interrupt": "raise KeyboardInterrupt",
    "generator exit": "raise GeneratorExit",
    "base exception": "raise BaseException('no')",
    "recursion": "def f(): return f()\nf()",
    "error without text": "class Mute(BaseException):\n    __str__ = None\nraise Mute",
    "no memory": "raise MemoryError",
    "several lines": "raise ValueError('one\\ntwo')",
}


def in_the_hook(code: str) -> str:
    """Return a hook that runs *code*."""
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    return f"@hookimpl\ndef wlk_backends():\n{lines}"


@pytest.mark.parametrize("code", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("place_code", [str, in_the_hook], ids=["import", "hook"])
def test_however_a_plugin_ends_it_is_a_row(site: Any, code: str, place_code: Any) -> None:
    """The row names the plugin, the reason in one line and the remedy; other plugins work."""
    site.install("wlk-odd", ["odd"], place_code(code) + "\n")
    site.install("wlk-toy", ["toy"], TOY)
    registry = site.registry()

    row = next(row for row in registry.plugins() if row.distribution == "wlk-odd")
    assert row.error
    assert "\n" not in row.error
    assert "pip install --upgrade wlk-odd, or remove it" in (registry.fault(row) or "")
    assert [spec.name for spec in registry.specs()] == ["toy"]
    assert registry.default_backend().name == "toy"
    assert registry.spec("toy").name == "toy"
    with pytest.raises(BackendUnavailable, match=r"wlk-odd 0\.1\.0 is installed but could not be"):
        registry.spec("odd")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("return None", "wlk_backends returns a list of BackendSpec objects, got None"),
        ("return 5", "wlk_backends returns a list of BackendSpec objects, got 5"),
        ("return [None]", "wlk_backends returns BackendSpec objects, got NoneType"),
        (
            "import itertools\nreturn (spec(f'n{i}') for i in itertools.count())",
            "it offers more than 1000 backends",
        ),
        (
            "toy = spec('toy')\nobject.__setattr__(toy, 'summary', None)\nreturn [toy]",
            "ValueError: BackendSpec 'toy': the field summary is a text; got None",
        ),
        (
            "return [spec('toy', requires=['torch'])]",
            (
                "ValueError: BackendSpec 'toy': the field requires is a mapping of distributions "
                "to the commands that install them; got ['torch']"
            ),
        ),
    ],
    ids=["none", "number", "none in a list", "endless", "changed by force", "list for mapping"],
)
def test_a_hook_that_returns_something_else_is_a_row(site: Any, code: str, error: str) -> None:
    """The row names what came and, for a spec, the backend and its field."""
    site.install("wlk-odd", ["odd"], in_the_hook(code))

    (row,) = site.registry().plugins()

    assert (row.error, row.backends) == (error, ())


@pytest.mark.parametrize("swallow", ["", "except BaseException: pass"], ids=["raised", "swallowed"])
def test_a_signal_of_the_user_still_interrupts(site: Any, swallow: str) -> None:
    """Ctrl-C while a plugin is imported ends the command, even if the plugin catches it."""
    caught = swallow or "finally: pass"
    code = f"import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\n{caught}\n"
    site.install("wlk-odd", ["odd"], code)
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        site.registry().plugins()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_plugin_cannot_keep_a_signal_for_itself(site: Any) -> None:
    """Handlers that a plugin installs at import are removed."""
    site.install("wlk-toy", ["toy"], "import signal\nsignal.signal(2, signal.SIG_IGN)\n" + TOY)
    before = signal.getsignal(signal.SIGINT)

    assert site.registry().spec("toy").name == "toy"
    assert signal.getsignal(signal.SIGINT) is before


LOADER = """
def load(spec, model, **options):
    {}

@hookimpl
def wlk_backends():
    yield spec("toy")
"""


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("return None", "returns a backend, got None without create_processor, transcribe, stream"),
        ("return 'model'", "returns a backend, got 'model' without create_processor"),
        (
            "from types import SimpleNamespace as N; return N(create_processor=print, close=5)",
            "without transcribe, stream, atranscribe, astream, warmup, close, __enter__, __exit__;",
        ),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise BaseException('no')", "BaseException: no"),
    ],
    ids=["none", "text", "half a backend", "exit", "interrupt", "base exception"],
)
def test_a_loader_that_gives_no_backend_is_refused_by_name(
    site: Any, statement: str, reason: str
) -> None:
    """The error names the backend, its loader's result and the distribution to update."""
    site.install("wlk-toy", ["toy"], LOADER.format(statement))

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().load_backend("toy")

    assert str(caught.value).startswith("backend toy cannot be used: ")
    assert reason in str(caught.value)
    assert "wlk-toy" in str(caught.value)


def test_an_error_of_a_loader_has_a_note_about_its_plugin(site: Any) -> None:
    """A traceback, and the line of a command, name the plugin whose loader failed."""
    site.install("wlk-toy", ["toy"], LOADER.format("raise RuntimeError('damaged')"))

    with pytest.raises(RuntimeError) as caught:
        site.registry().load_backend("toy")

    assert caught.value.__notes__ == ["raised by the loader of backend toy of wlk-toy"]


def test_a_backend_belongs_to_the_plugin_with_the_entry_point_of_its_name(site: Any) -> None:
    """Another plugin that offers it too changes nothing anywhere, and its row shows why."""
    site.install("wlk-aaa", ["other"], TOY + '    yield spec("other")\n')
    site.install("wlk-toy", ["toy"], TOY.replace('"toy"', '"toy", preference=5'))

    for prepare in (lambda _registry: None, Registry.plugins):
        registry = site.registry()
        prepare(registry)
        assert registry.spec("toy").preference == 5
        assert registry.owner("toy").distribution == "wlk-toy"
        assert [spec.name for spec in registry.specs()] == ["other", "toy"]
        assert registry.default_backend().name == "toy"
        assert registry.conflicts() == {}
    faults = {row.distribution: registry.fault(row) for row in registry.plugins()}
    assert faults == {
        "wlk-aaa": "its backend 'toy' is left out, because wlk-toy 0.1.0 has the entry point of "
        "that name: uninstall one",
        "wlk-toy": None,
    }


def test_a_contested_backend_is_no_silent_change_of_the_default(site: Any) -> None:
    """Where two distributions offer the preferred backend, choosing another would change words."""
    code = TOY.replace('"toy"', '"toy", preference=5')
    site.install("wlk-first", ["toy"], code)
    site.install("wlk-second", ["toy"], code)
    site.install("wlk-third", ["third"], TOY.replace('"toy"', '"third", preference=9'))
    registry = site.registry()

    assert registry.default_backend().name == "third"
    (site.folder / "wlk_third_plugin.py").unlink()
    sys.modules.pop("wlk_third_plugin")
    with pytest.raises(BackendUnavailable, match=r"'toy' is offered by wlk-first .* and wlk-s"):
        site.registry().default_backend()
