from __future__ import annotations

from io import StringIO
import json
from pathlib import Path

import attrs
import pytest

from wlk_core import models as store
from wlk_core.models import Model

CACHED = Model(
    backend="toy",
    name="base",
    repo="acme/base",
    state="cached",
    revision="a" * 40,
    size=145_200_000,
    licence="mit",
    path=Path("somewhere"),
    is_default=True,
)


def test_models_shows_sizes_and_sources_and_scripts_get_every_field(command, monkeypatch):
    """A pulled model is shown with its size, licence and repository."""
    monkeypatch.setattr(store, "list_models", lambda _specs: (CACHED,))

    assert command("models").out.splitlines()[1].split() == (
        ["toy", "base*", "cached", "145.2", "MB", "mit", "acme/base"]
    )
    assert json.loads(command("models", "--backend", "toy", "--json").out) == [
        attrs.asdict(CACHED) | {"path": "somewhere"}
    ]


def test_the_models_of_backends_that_can_be_used_come_first(command, site, install_needy):
    """Those of the others follow; a backend that needs something is no less of an answer."""
    install_needy()
    site.offer("wlk-zebra", "zebra", models={"digits": "bundled"}, default_model="digits")
    backends = [line.split()[0] for line in command("models").out.splitlines()[1:]]

    assert list(dict.fromkeys(backends)) == ["toy", "zebra", "needy"]


def test_pull_names_what_arrived(command, monkeypatch):
    """A pull ends with the repository, the revision and the size."""
    monkeypatch.setattr(store, "pull", lambda _model, _spec: CACHED)

    assert command("pull", "base", "--backend", "toy") == (
        0,
        "base is ready for toy: acme/base at aaaaaaaaaaaa, 145.2 MB, licence mit\n",
        "",
    )


def test_pull_of_a_bundled_model_has_nothing_to_do(command):
    """Pulling a model that comes with the plugin is not a failure."""
    assert command("pull", "digits", "--backend", "toy").out == (
        "digits is bundled: nothing to pull\n"
    )


@pytest.fixture
def cached(tmp_path):
    """Return the folder of a model in the cache."""
    folder = tmp_path / "hf" / "models--acme--base"
    (folder / "blobs").mkdir(parents=True)
    (folder / "blobs" / "weights").write_bytes(bytes(300_000))
    return folder


def test_rm_needs_consent(command, cached):
    """If there is no terminal to ask on, the line names the option; nothing is removed."""
    done = command("rm", "acme/base", "--backend", "toy")

    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "wlk-core: other tools may use acme/base (0.3 MB); "
        "remove it with: wlk-core rm acme/base --backend toy --yes\n"
    )
    assert cached.exists()


def test_rm_with_yes_asks_nothing(command, cached):
    """The option gives consent."""
    done = command("rm", "acme/base", "--backend", "toy", "--yes")

    assert (done.status, done.out) == (0, "removed acme/base: 0.3 MB are free again\n")
    assert not cached.exists()


@pytest.mark.parametrize(("answer", "is_kept"), [("y\n", False), ("n\n", True)])
def test_rm_asks_on_a_terminal(command, cached, monkeypatch, answer, is_kept):
    """On a terminal the user is asked, and the answer decides."""
    terminal = StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    done = command("rm", "acme/base", "--backend", "toy")

    assert (done.status, cached.exists()) == (int(is_kept), is_kept)
    assert "other tools may use acme/base (0.3 MB). Remove it?" in done.err
