"""Write docs/options.md from the specs of the installed backends: python tools/options_page.py."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from wlk_core.registry import Registry

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"
FIRST_PARTY = (
    "wlk-whisper", "wlk-qwen3-simul", "wlk-voxtral-hf", "wlk-voxtral-mlx", "wlk-realtime",
)  # fmt: skip
HEAD = """# Options

What each backend accepts, from its own declaration. Options of scope *backend* go to
`load_backend(NAME, MODEL, KEY=VALUE)`, those of scope *stream* to `create_processor(KEY=VALUE)`;
the command line takes both as `--option KEY=VALUE`. An option has one name on every backend;
lengths are seconds, but for `delay_ms`. `wlk-core backends NAME` prints the same. This page is
written by `python tools/options_page.py`, and a test checks that it is current.
"""


def rows_of(option: Option) -> str:
    """Return the row of an option in the table of its backend."""
    default = f"`{option.default_text}`"
    auto = ["`auto`"] if option.takes_auto else []
    if option.choices:
        values = ", ".join([*auto, *(f"`{choice}`" for choice in option.choices)])
    else:
        low, high = option.minimum, option.maximum
        bounds = [f"{bound:g}" for bound in (low, high) if bound is not None]
        kind = option.type.__name__ + (f", {' to '.join(bounds)}" if bounds else "")
        values = " or ".join([kind, *auto])
    policies = ", ".join(f"`{policy}`" for policy in option.policies)
    text = option.help + (f" (policy {policies})" if policies else "")
    return f"| `{option.name}` | {option.scope} | {values} | {default} | {text} |"


def section_of(spec: BackendSpec) -> str:
    """Return the section of a backend."""
    models = ", ".join(f"`{alias}`" for alias in spec.models) or "a directory or an address"
    lines = [
        f"## {spec.name}",
        "",
        f"{spec.summary}.",
        "",
        "| option | scope | values | default | meaning |",
        "|---|---|---|---|---|",
        *(rows_of(option) for option in spec.all_options),
        "",
        f"Models: {models}; default `{spec.default_model}`.",
    ]
    return "\n".join(lines)


def page() -> str:
    """Return the page about the first-party backends that are installed."""
    plugins = [plugin for plugin in Registry().plugins() if plugin.distribution in FIRST_PARTY]
    specs = sorted((spec for plugin in plugins for spec in plugin.backends), key=lambda s: s.name)
    return "\n\n".join([HEAD.rstrip(), *map(section_of, specs)]) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.parse_args().output.write_text(page(), encoding="utf-8")
