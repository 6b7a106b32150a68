from __future__ import annotations

from io import StringIO
import json
from pathlib import Path

import pytest

from wlk_core import models as store
from wlk_core.models import Model
from wlk_core.models.cache import CachedRepo, Removal

PULLED = Model(
    backend="toy",
    name="base",
    repo="acme/base",
    state="pulled",
    revision="a" * 40,
    size=145_200_000,
    licence="mit",
    path=Path("somewhere"),
    is_default=True,
)


def test_models_lists_every_backends_models(command):
    """Each model is a line with its state; the default carries a star."""
    assert [line.split() for line in command("models").out.splitlines()] == [
        ["BACKEND", "MODEL", "STATE", "SIZE", "LICENCE", "REPOSITORY"],
        ["toy", "digits*", "bundled"],
    ]


def test_models_as_json(command, monkeypatch):
    """Scripts get every field."""
    monkeypatch.setattr(store, "list_models", lambda _specs: (PULLED,))

    assert json.loads(command("models", "--backend", "toy", "--json").out) == [
        {
            "backend": "toy",
            "name": "base",
            "repo": "acme/base",
            "state": "pulled",
            "revision": "a" * 40,
            "size": 145200000,
            "licence": "mit",
            "path": "somewhere",
            "is_default": True,
        }
    ]


def test_models_shows_sizes_and_sources(command, monkeypatch):
    """A pulled model is shown with its size and repository."""
    monkeypatch.setattr(store, "list_models", lambda _specs: (PULLED,))

    assert command("models").out.splitlines()[1].split() == (
        ["toy", "base*", "pulled", "145.2", "MB", "mit", "acme/base"]
    )


def test_pull_names_what_arrived(command, monkeypatch):
    """A pull ends with the repository, the revision and the size."""
    monkeypatch.setattr(store, "pull", lambda _model, _spec: PULLED)

    assert command("pull", "base", "--backend", "toy") == (
        0,
        "base is ready for toy: acme/base at aaaaaaaaaaaa, 145.2 MB, licence mit\n",
        "",
    )


def test_pull_of_a_bundled_model_has_nothing_to_do(command):
    """A model that came with the plugin is not a failure."""
    assert command("pull", "digits", "--backend", "toy").out == (
        "digits is bundled: nothing to pull\n"
    )


@pytest.fixture
def removals(monkeypatch):
    """Put a removal in the place of the plan; return what is executed."""
    executed = []

    class Planned(Removal):
        size = 145_200_000

        def execute(self):
            executed.append(self.repo.repo)

    def plan(*users):
        removal = Planned(repo=CachedRepo(Path("cache"), "acme/base"), pulls=(), users=users)
        monkeypatch.setattr(store, "plan_removal", lambda _model, _spec: removal)
        return executed

    return plan


def test_rm_prints_how_much_became_free(command, removals):
    """Removing a model without other users asks nothing."""
    executed = removals()

    assert command("rm", "base", "--backend", "toy").out == (
        "removed base of toy: 145.2 MB are free again\n"
    )
    assert executed == ["acme/base"]


def test_rm_of_a_model_that_others_may_use_needs_consent(command, removals):
    """Without a terminal to ask on, the line names the option; nothing is removed."""
    executed = removals("other", "another tool")

    done = command("rm", "base", "--backend", "toy")

    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "wlk-core: other and another tool may still use base (145.2 MB); "
        "remove it nevertheless with: wlk-core rm base --backend toy --yes\n"
    )
    assert executed == []


def test_rm_with_yes_asks_nothing(command, removals):
    """The option is the consent."""
    executed = removals("another tool")

    assert command("rm", "base", "--backend", "toy", "--yes").status == 0
    assert executed == ["acme/base"]


@pytest.mark.parametrize(("answer", "runs"), [("y\n", ["acme/base"]), ("n\n", [])])
def test_rm_asks_on_a_terminal(command, removals, monkeypatch, answer, runs):
    """On a terminal the question is asked, and the answer decides."""
    executed = removals("another tool")
    terminal = StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)

    done = command("rm", "base", "--backend", "toy")

    assert (done.status, executed) == (0 if runs else 1, runs)
    assert "another tool may still use base (145.2 MB). Remove it?" in done.err
