from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlk_core import ModelNotFoundError
from wlk_core import models as store
from wlk_core.models import Model

PULLED = Model(
    backend="toy",
    name="base",
    repo="acme/base",
    state="pulled",
    revision="a" * 40,
    size=145_200_000,
    path=Path("somewhere"),
    is_default=True,
)


def test_models_lists_every_backends_models(command):
    """Each model is a line with its state; the default carries a star."""
    assert command("models") == (0, "toy  digits*  bundled\n", "")


def test_models_of_an_unknown_backend_is_refused(command):
    """A backend nobody offers is an error, not an empty list."""
    assert command("models", "--backend", "nope").status == 1


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
            "path": "somewhere",
            "is_default": True,
        }
    ]


def test_models_shows_sizes_and_sources(command, monkeypatch):
    """A pulled model is shown with its size and repository."""
    monkeypatch.setattr(store, "list_models", lambda _specs: (PULLED,))

    assert command("models").out == "toy  base*  pulled  145.2 MB  acme/base\n"


def test_pull_says_what_came(command, monkeypatch):
    """A pull ends with the repository, the revision and the size."""
    monkeypatch.setattr(store, "pull", lambda _model, _spec: PULLED)

    assert command("pull", "base", "--backend", "toy") == (
        0,
        "base is here for toy: acme/base at aaaaaaaaaaaa, 145.2 MB\n",
        "",
    )


def test_pull_of_a_bundled_model_has_nothing_to_do(command):
    """A model that came with the plugin is no failure."""
    assert command("pull", "digits", "--backend", "toy").out == (
        "digits is bundled: nothing to pull\n"
    )


def test_pull_of_an_unknown_model_names_the_known_ones(command):
    """A model that is no alias, repository or directory is one line and status 1."""
    done = command("pull", "huge", "--backend", "toy")

    assert done.status == 1
    assert done.err.startswith("wlk-core: toy knows no model called 'huge'; expected one of digits")
    assert done.err.count("\n") == 1


def test_pull_that_fails_is_one_line(command, monkeypatch):
    """Whatever the store says of a failure is printed as it is."""

    def fail(_model, _spec):
        raise ModelNotFoundError("acme/base was not pulled")

    monkeypatch.setattr(store, "pull", fail)

    assert command("pull", "base", "--backend", "toy") == (
        1,
        "",
        "wlk-core: acme/base was not pulled\n",
    )


def test_an_interrupted_pull_is_one_line(command, monkeypatch):
    """Ctrl-C during a pull shows no traceback."""

    def interrupt(_model, _spec):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "pull", interrupt)

    done = command("pull", "base", "--backend", "toy")

    assert (done.status, done.err.strip()) == (
        1,
        "wlk-core: interrupted; what was done by then is kept",
    )


def test_rm_says_how_much_became_free(command, monkeypatch):
    """Removing a model tells the bytes."""
    monkeypatch.setattr(store, "remove", lambda _model, _spec: 145_200_000)

    assert command("rm", "base", "--backend", "toy").out == (
        "removed base of toy: 145.2 MB are free again\n"
    )


@pytest.mark.parametrize(
    ("model", "text"),
    [("digits", "digits is bundled and was never pulled"), ("a/b", "a/b was never pulled for toy")],
)
def test_rm_of_what_was_not_pulled_is_refused(command, model, text):
    """Only what pull brought can be removed."""
    done = command("rm", model, "--backend", "toy")

    assert done.status == 1
    assert text in done.err
