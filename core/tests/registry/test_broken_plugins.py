"""Plugins that fail to load or break the rules are listed with the reason and harm no others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

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
        (
            "",
            "it implements none of the hooks wlk_backends, wlk_commands, wlk_diarizers, wlk_text",
        ),
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
        (
            "@hookimpl\ndef wlk_bakends():\n    return []\n",
            "no hook is called wlk_bakends; expected",
        ),
        ("@hookimpl\ndef wlk_backends():\n    return None\n", "TypeError"),
    ],
    ids=[
        "no hook",
        "no spec",
        "other kind",
        "raising",
        "bad name",
        "exit",
        "skip",
        "argument",
        "misspelt hook",
        "nothing",
    ],
)
def test_a_plugin_that_breaks_the_rules_is_named_with_its_fault(
    site: Any, code: str, error: str
) -> None:
    """A plugin that imports but offers something invalid is listed with the reason, in one line."""
    site.install("wlk-odd", ["odd"], code)

    (row,) = site.registry().plugins()

    assert row.specs == ()
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


# Each kind of plugin: its hook, and an expression for a spec of that kind.
KINDS = {
    "backend": ("wlk_backends", "spec('odd'{})"),
    "diarizer": ("wlk_diarizers", "offer('diarizer'{})"),
    "command": ("wlk_commands", "offer('command'{})"),
    "protocol": ("wlk_protocols", "offer('protocol'{})"),
}
OFFER = """
def offer(kind, api=1):
    cls = AnnotatorSpec if kind == "diarizer" else PluginSpec
    return cls(kind=kind, name="odd", api=api, summary="", load="x:y")

"""
HOST = "from wlk_core.hookspecs import hookspec\n@hookspec\ndef wlk_protocols():\n    pass\n"


@pytest.fixture
def install(site: Any) -> Callable[..., None]:
    """Return a function that installs a plugin of a kind, beside a sound backend and a host."""
    site.install("wlk-host", ["hookspecs.wlk_protocols"], HOST, module="wlk_host_plugin")
    site.offer("wlk-sound", "sound")

    def install(kind: str, body: str, *, distribution: str = "wlk-odd") -> None:
        hook, _ = KINDS[kind]
        point = f"{kind}.odd" if kind in {"command", "protocol"} else "odd"
        code = f"{OFFER}@hookimpl\ndef {hook}():\n    {body}\n"
        site.install(distribution, [point], code)

    return install


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise RuntimeError('no device')", "RuntimeError: no device"),
        ("return [object()]", "expected {kind}s from {hook}, got <object"),
        ("import threading; threading.Event().wait()", "it did not answer within 0 seconds"),
        ("return [NEWER]", "{kind} 'odd' needs plugin API 99, but this wlk-core supports 1 to 1"),
    ],
    ids=["raises", "nonsense", "hangs", "newer API"],
)
def test_a_broken_plugin_of_any_kind_is_one_row_and_harms_no_other(
    site: Any, install: Any, monkeypatch: pytest.MonkeyPatch, *, kind: str, body: str, error: str
) -> None:
    """Its row has the reason in one line, and every other plugin works."""
    hook, declared = KINDS[kind]
    install(kind, body.replace("NEWER", declared.format(", api=99")))
    if "Event" in body:
        site.registry().spec("sound")  # imported before the limit becomes short
        monkeypatch.setattr("wlk_core.registry._MAX_IMPORT_SECONDS", 0.2)
    registry = site.registry()

    rows = {row.distribution: row for row in registry.plugins()}

    assert (rows["wlk-odd"].error or "").startswith(error.format(kind=kind, hook=hook))
    assert registry.spec("sound").name == "sound"
    assert [name for name, row in rows.items() if row.error] == ["wlk-odd"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_distributions_that_offer_one_name_are_both_faulty(
    site: Any, install: Any, kind: str
) -> None:
    """Neither is chosen in silence, whatever the kind."""
    body = f"return [{KINDS[kind][1].format('')}]"
    install(kind, body)
    install(kind, body, distribution="wlk-other")
    registry = site.registry()

    faults = {row.distribution: registry.fault(row) for row in registry.plugins()}

    assert "odd" not in [spec.name for spec in registry.offers(kind)]
    assert faults["wlk-odd"] == faults["wlk-other"]
    assert "is offered by wlk-odd 0.1.0 and wlk-other 0.1.0" in str(faults["wlk-odd"])
    assert faults["wlk-sound"] is None


def test_a_distribution_for_another_layout_is_one_row(site: Any) -> None:
    """A plugin that imports what does not exist is broken, with the way to update it."""
    site.install("wlk-old", ["old"], "from wlk_core.frameworks.torch import choose_device\n")

    (row,) = site.registry().plugins()

    assert row.failure == (
        "No module named 'wlk_core.frameworks'; update it with: pip install --upgrade wlk-old, "
        "or remove it with: pip uninstall wlk-old"
    )


def test_an_optional_hook_needs_no_host(site: Any) -> None:
    """A translator may offer a protocol too, and works where the server is not installed."""
    code = "@hookimpl(optionalhook=True)\ndef wlk_protocols():\n    return [object()]\n"
    more = "@hookimpl\ndef wlk_backends():\n    return [spec('toy')]\n"
    site.install("wlk-toy", ["toy"], code + more)

    (row,) = site.registry().plugins()

    assert row.error is None
    assert [spec.name for spec in row.specs] == ["toy"]


def test_a_host_whose_hooks_cannot_be_imported_is_one_row(site: Any) -> None:
    """A broken server does not take the backends down; what needs its hook is named too."""
    site.install("wlk-host", ["hookspecs.wlk_protocols"], BROKEN, module="wlk_host_plugin")
    site.offer("wlk-sound", "sound")

    registry = site.registry()

    assert registry.spec("sound").name == "sound"
    assert [(row.distribution, row.error) for row in registry.plugins()] == [
        ("wlk-sound", None),
        ("wlk-host", "No module named 'not_a_module'"),
    ]


def test_an_offer_that_no_entry_point_names_is_one_row(site: Any) -> None:
    """A command or protocol is found by its entry point, so one without could never be used."""
    code = """
    @hookimpl
    def wlk_commands():
        return [PluginSpec(kind="command", name="beta", api=1, summary="", load="x:y")]
    """
    site.install("wlk-alpha", ["command.alpha"], code)

    (row,) = site.registry().plugins()

    assert row.error == "it offers the command 'beta' without an entry point command.beta"
