"""What a command uses: flags before variables before config.toml before the backend's own."""

from __future__ import annotations

import re

import attrs
import pytest

from wlk_core import BackendUnavailable, OptionError
from wlk_core.config import choose_settings

FILE = """\
backend = "other"
model = "file"
[options.other]
beam_size = 2
device = "cpu"
[options.toy]
beam_size = 3
"""


def options_of(settings):
    """Return the options of both scopes in one table."""
    return {**settings.options.backend, **settings.options.stream}


@pytest.fixture
def layers(write, monkeypatch):
    """Return a function that writes the file and sets variables."""

    def write_all(file, variables):
        write(file)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return write_all


VARIABLES = {"WLK_MODEL": "variable", "WLK_OPTION_BEAM_SIZE": "4"}
FLAGS = {"backend": "toy", "model": "flag", "pairs": ["beam_size=5", "fast=on"]}


@pytest.mark.parametrize(
    ("file", "variables", "flags", "backend", "model", "options"),
    [
        ("", {}, {}, "toy", "base", {}),
        (FILE, {}, {}, "other", "file", {"device": "cpu", "beam_size": 2}),
        (FILE, VARIABLES, {}, "other", "variable", {"device": "cpu", "beam_size": 4}),
        (FILE, VARIABLES, FLAGS, "toy", "flag", {"fast": True, "beam_size": 5}),
    ],
    ids=["defaults", "file", "variables", "flags"],
)
def test_flags_precede_variables_the_file_and_the_defaults_of_the_backend(
    *, registry, layers, file, variables, flags, backend, model, options
):
    """The preferred backend and its default model are used where nothing is set."""
    layers(file, variables)
    settings = choose_settings(registry, **flags)

    assert (backend, model, None) == (settings.spec.name, settings.model, settings.language)
    assert options == options_of(settings)


@pytest.mark.parametrize(
    ("variables", "backend", "model"),
    [
        ({}, None, "file"),
        ({}, "other", "base"),
        ({"WLK_BACKEND": "other"}, None, "base"),
        ({"WLK_BACKEND": "toy", "WLK_MODEL": "variable"}, None, "variable"),
        ({"WLK_MODEL": "variable"}, None, "variable"),
        ({"WLK_MODEL": "variable"}, "toy", "base"),
    ],
)
def test_a_model_belongs_to_its_backend(registry, layers, variables, backend, model):
    """A model is not used with a backend that something precedent to it chose."""
    layers(FILE, variables)

    assert model == choose_settings(registry, backend=backend).model


@pytest.mark.parametrize(
    ("file", "variable", "flag", "language"),
    [
        ("de", "", None, "de"),
        ("de", "en", None, "en"),
        ("de", "en", "auto", None),
        ("de", "auto", None, None),
        ("auto", "", None, None),
        ("", "", "EN", "en"),
        ("", "en-US", None, "en"),
        ("German", "", None, "de"),
    ],
)
def test_a_language_is_read_as_people_write_it(*, registry, layers, file, variable, flag, language):
    """Codes, tags and English names count in any case, and "auto" means detection."""
    layers(f"language = '{file}'" if file else "", {"WLK_LANGUAGE": variable})

    assert language == choose_settings(registry, language=flag).language


POLICIES = '[options.toy]\npolicy = "alignatt"\nborder_seconds = 1\n'


def test_the_policy_of_the_file_decides_on_the_options_of_flags(registry, write):
    """An option of a policy is accepted with the policy that the file sets."""
    write('[options.toy]\npolicy = "alignatt"\n')

    settings = choose_settings(registry, pairs=["border_seconds=2"])

    assert options_of(settings) == {"policy": "alignatt", "border_seconds": 2.0}


@pytest.mark.parametrize("how", ["flag", "pair", "variable"])
def test_options_of_another_policy_than_the_chosen_are_left_out(registry, write, monkeypatch, how):
    """A policy that precedes the file makes its options for another policy void."""
    write(POLICIES)
    if how == "variable":
        monkeypatch.setenv("WLK_OPTION_POLICY", "local-agreement")

    settings = choose_settings(
        registry,
        policy="local-agreement" if how == "flag" else None,
        pairs=["policy=local-agreement"] if how == "pair" else [],
    )

    assert options_of(settings) == {"policy": "local-agreement"}


def test_an_option_of_another_policy_in_one_layer_is_a_mistake(registry, write, path):
    """A file that contradicts itself is named."""
    write(POLICIES.replace("alignatt", "local-agreement"))

    with pytest.raises(OptionError) as caught:
        choose_settings(registry)

    assert str(caught.value).startswith(f"{path}, key options.toy.border_seconds: toy: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[options.toy]\nbeamsize = 1",
            ", key options.toy.beamsize: toy: no option is call",
        ),
        (
            "[options.toy]\n\nbeam_size = 99",
            ", key options.toy.beam_size: toy: option beam",
        ),
        (
            "[options.toy]\npolicy = 'x'",
            ", key options.toy.policy: toy: option policy is o",
        ),
        ("language = 'xx'", ", key language: toy does not support the language 'xx'"),
    ],
)
def test_a_mistake_in_the_file_names_file_and_key(registry, write, path, text, message):
    """What the backend does not take is named by its origin."""
    write(text)

    with pytest.raises(OptionError, match=re.escape(f"{path}{message}")):
        choose_settings(registry)


def test_a_backend_of_the_file_that_is_absent_is_named(registry, write, path):
    """So is a backend that is not installed."""
    write("backend = 'nope'")

    with pytest.raises(BackendUnavailable, match=re.escape(f"{path}, key backend: no back")):
        choose_settings(registry)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WLK_OPTION_BEAMSIZE", "1", "WLK_OPTION_BEAMSIZE: toy: no option is called 'beamsize'"),
        ("WLK_OPTION_BEAM_SIZE", "x", "WLK_OPTION_BEAM_SIZE: toy: option beam_size is an int"),
        ("WLK_LANGUAGE", "xx", "WLK_LANGUAGE: toy does not support the language 'xx'"),
    ],
)
def test_a_mistake_in_a_variable_names_it(registry, monkeypatch, name, value, message):
    """A variable is named like a line of the file."""
    monkeypatch.setenv(name, value)

    with pytest.raises(OptionError, match=re.escape(message)):
        choose_settings(registry)


def test_a_language_that_the_backend_cannot_force_names_the_flag(registry, write):
    """A default language may not suit every backend; one flag leaves it out."""
    write('language = "de"')

    with pytest.raises(OptionError, match=r"key language: other "):
        choose_settings(registry, backend="other")
    assert choose_settings(registry, backend="other", language="auto").language is None


def test_a_mistake_in_a_flag_has_no_origin(registry):
    """Users see what they typed."""
    with pytest.raises(OptionError, match=r"^toy: no option is called 'beamsize' \(did you mean"):
        choose_settings(registry, pairs=["beamsize=1"])


@pytest.mark.parametrize("name", ["toy", "whisper", "something-else"])
def test_a_command_leaves_options_of_other_backends_alone(registry, write, name):
    """Whether they are installed or not."""
    write(f"[options.{name}]\nbeam_size = 2\n")

    assert choose_settings(registry, backend="other").spec.name == "other"


def test_a_policy_of_a_backend_without_any_is_refused(registry, monkeypatch):
    """The message says what to leave out, and names a variable."""
    registry.toy = attrs.evolve(registry.toy, name="solo", policies=(), options=())
    start = "^solo streams by itself and has no policies: leave"

    with pytest.raises(OptionError, match=f"{start} policy out$"):
        choose_settings(registry, policy="alignatt")
    with pytest.raises(OptionError, match=f"{start} policy out$"):
        registry.toy.stream_options({"policy": "alignatt"})
    monkeypatch.setenv("WLK_OPTION_POLICY", "alignatt")
    with pytest.raises(OptionError, match=r"^WLK_OPTION_POLICY: solo streams by itself"):
        choose_settings(registry)
