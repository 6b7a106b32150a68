"""Plugins that fail to load or break the rules are listed with the reason and harm no others."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from wlk_core import BackendUnavailable

BROKEN = "import not_a_module\n"


def test_strict_mode_raises_what_the_plugin_raised(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With WLK_STRICT_PLUGINS=1 a plugin's own exception propagates."""
    site.install("wlk-broken", ["broken"], BROKEN)
    monkeypatch.setenv("WLK_STRICT_PLUGINS", "1")

    with pytest.raises(ModuleNotFoundError, match="not_a_module"):
        site.registry().plugins()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", "it implements none of the hooks wlk_backends, wlk_diarizers, wlk_translators"),
        (
            "@hookimpl\ndef wlk_backends():\n    return [SimpleNamespace(kind='backend')]\n",
            "expected backends from wlk_backends, got namespace(kind='backend')",
        ),
        (
            "@hookimpl\ndef wlk_diarizers():\n    return [spec('toy')]\n",
            "expected diarizers from wlk_diarizers, got BackendSpec(",
        ),
        (
            "@hookimpl\ndef wlk_backends():\n    raise RuntimeError('first\\nsecond')\n",
            "RuntimeError: first second",
        ),
        (
            "@hookimpl\ndef wlk_backends():\n    return [spec('Toy')]\n",
            "ValueError: BackendSpec: expected name as [a-z][a-z0-9-]*, got 'Toy'",
        ),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("import pytest\npytest.skip('no device', allow_module_level=True)\n", "Skipped: no"),
        ("@hookimpl\ndef wlk_backends(surprise):\n    return []\n", "PluginValidationError"),
    ],
    ids=["no hook", "no spec", "other kind", "raising", "bad name", "exit", "skip", "argument"],
)
def test_a_plugin_that_breaks_the_rules_is_named_with_its_fault(
    site: Any, code: str, error: str
) -> None:
    """A plugin that imports but offers something invalid is listed with the reason, in one line."""
    site.install("wlk-odd", ["odd"], code)

    (row,) = site.registry().plugins()

    assert row.backends == ()
    assert row.error is not None
    assert row.error.startswith(error)
    assert "\n" not in row.error


def test_an_interrupt_while_a_plugin_is_imported_passes(site: Any) -> None:
    """Ctrl-C ends the program, and the plugin is not recorded as broken."""
    site.install("wlk-odd", ["odd"], "raise KeyboardInterrupt\n")

    with pytest.raises(KeyboardInterrupt):
        site.registry().plugins()


@pytest.mark.parametrize("api", [0, 99])
def test_a_plugin_of_another_api_is_refused(site: Any, api: int) -> None:
    """The error for an unsupported plugin API names that version and the supported ones."""
    site.offer("wlk-old", "old", api=api)

    with pytest.raises(
        BackendUnavailable,
        match=rf"backend 'old' needs plugin API {api}, but this wlk-core supports 1",
    ):
        site.registry().spec("old")


def test_two_distributions_with_one_backend_are_an_error_when_it_is_used(site: Any) -> None:
    """The error for a name that two distributions offer names both; other names still work."""
    site.offer("wlk-first", "toy")
    site.offer("wlk-second", "toy", "fine")
    registry = site.registry()

    with pytest.raises(BackendUnavailable) as caught:
        registry.spec("toy")

    assert str(caught.value) == (
        "backend 'toy' is offered by wlk-first 0.1.0 and wlk-second 0.1.0; "
        "keep one: pip uninstall wlk-second"
    )
    assert registry.spec("fine").name == "fine"
    assert [spec.name for spec in registry.specs()] == ["fine"]
    assert [registry.fault(row) for row in registry.plugins()] == [str(caught.value)] * 2


def test_a_contested_backend_does_not_change_the_default_in_silence(site: Any) -> None:
    """If two distributions offer the preferred backend, no other backend takes its place."""
    site.offer("wlk-first", "toy", preference=5)
    site.offer("wlk-second", "toy", preference=5)
    site.offer("wlk-third", "third", preference=9)
    registry = site.registry()

    assert registry.default_backend().name == "third"
    (site.folder / "wlk_third_plugin.py").unlink()
    sys.modules.pop("wlk_third_plugin")
    with pytest.raises(BackendUnavailable, match=r"'toy' is offered by wlk-first .* and wlk-s"):
        site.registry().default_backend()


def test_an_unknown_backend_names_the_installed_ones(site: Any) -> None:
    """The error for an unknown name lists the installed backends and the plugins that failed."""
    site.install("wlk-broken", ["broken"], BROKEN)
    with pytest.raises(BackendUnavailable, match=r"no backend works; could not be .*wlk-broken"):
        site.registry().default_backend()
    site.offer("wlk-toy", "toy")

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().spec("nope")

    assert str(caught.value) == (
        "no backend called 'nope'; installed: toy; "
        "could not be loaded: wlk-broken (see: wlk-core plugins)"
    )
