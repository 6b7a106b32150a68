"""
Fill in docs/options.md while mkdocs builds the site, and write every page as Markdown too.

The options replace the comment `<!-- options -->`; they are those of the installed plugins.  The
Markdown of each page is written beside its HTML, and llms.txt lists the pages (https://llmstxt.org).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = "<!-- options -->"
_pages: dict[str, tuple[str, str]] = {}  # title and Markdown of each source file


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the Markdown of a page, with the options filled in."""
    if OPTIONS in markdown:  # listing the plugins takes a while
        markdown = markdown.replace(OPTIONS, options())
    _pages[page.file.src_uri] = page.title, markdown
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Write the Markdown of every page, and llms.txt, into the site."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", "", "## Pages", ""]
    for source, (title, markdown) in sorted(_pages.items()):
        (site / source).write_text(markdown, encoding="utf-8")
        lines.append(f"- [{title}]({source})")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def option_row(option: Option) -> str:
    """Return the table row of an option."""
    auto = ["`auto`"] if option.is_auto_allowed else []
    if option.choices:
        values = ", ".join([*auto, *(f"`{choice}`" for choice in option.choices)])
    else:
        bounds = [f"{b:g}" for b in (option.minimum, option.maximum) if b is not None]
        kind = option.type.__name__ + (f", {' to '.join(bounds)}" if bounds else "")
        values = " or ".join([kind, *auto])
    policies = ", ".join(f"`{policy}`" for policy in option.policies)
    text = option.help + (f" (policy {policies})" if policies else "")
    return f"| `{option.name}` | {option.scope} | {values} | `{option.default_text}` | {text} |"


def backend_section(spec: BackendSpec) -> str:
    """Return the section about a backend."""
    models = ", ".join(f"`{alias}`" for alias in spec.models) or "a directory or an address"
    lines = [f"## {spec.name}", "", f"{spec.summary}.", ""]
    lines += ["| option | scope | values | default | meaning |", "|---|---|---|---|---|"]
    lines += map(option_row, spec.all_options)
    return "\n".join([*lines, "", f"Models: {models}; default `{spec.default_model}`.", ""])


def options() -> str:
    """Return a section about each installed backend of this project."""
    try:
        from wlk_core.registry import Registry  # noqa: PLC0415 -- may be absent
    except ModuleNotFoundError:  # only the dependency group "docs" is installed
        return "This build has no options, because no package of the project was installed for it."
    ours = {path.name for path in (ROOT / "plugins").iterdir()}
    specs = [
        spec
        for plugin in Registry().plugins()
        if plugin.distribution in ours
        for spec in plugin.offers("backend")
    ]
    return "\n".join(map(backend_section, sorted(specs, key=lambda spec: spec.name)))
