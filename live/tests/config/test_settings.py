"""A command's settings, by precedence: flags, variables, config.toml, backend defaults."""

from __future__ import annotations

import re

import attrs
import pytest

from wlk_core import BackendUnavailable, OptionError
from wlk_core.options import Option
from wlk_live.config import choose_settings

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
    """If nothing is set, the preferred backend and its default model are used."""
    layers(file, variables)
    settings = choose_settings(registry, **flags)

    assert (settings.spec.name, settings.model, settings.language) == (backend, model, None)
    assert options_of(settings) == options


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
    """A model is ignored if the backend was chosen with more precedence."""
    layers(FILE, variables)

    assert choose_settings(registry, backend=backend).model == model


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
    """Codes, tags and English names are accepted in any case, and "auto" means detection."""
    layers(f"language = '{file}'" if file else "", {"WLK_LANGUAGE": variable})

    assert choose_settings(registry, language=flag).language == language


def test_several_languages_are_an_option_of_the_streams(registry):
    """None is forced, and only a backend that can choose among them accepts them."""
    choice = Option(name="languages", scope="stream")
    registry.toy = attrs.evolve(registry.toy, options=(*registry.toy.options, choice))
    settings = choose_settings(registry, language="German,en")

    assert (settings.language, options_of(settings)["languages"]) == (None, "de,en")
    with pytest.raises(OptionError):
        choose_settings(registry, backend="other", language="German,en")


POLICIES = '[options.toy]\npolicy = "alignatt"\nborder_seconds = 1\n'


def test_the_policy_of_the_file_decides_on_the_options_of_flags(registry, write):
    """An option of a policy is accepted with the policy that the file sets."""
    write('[options.toy]\npolicy = "alignatt"\n')

    settings = choose_settings(registry, pairs=["border_seconds=2"])

    assert options_of(settings) == {"policy": "alignatt", "border_seconds": 2.0}


@pytest.mark.parametrize("how", ["flag", "pair", "variable"])
def test_options_of_another_policy_than_the_chosen_are_left_out(registry, write, monkeypatch, how):
    """A policy with more precedence than the file voids the file's options for other policies."""
    write(POLICIES)
    if how == "variable":
        monkeypatch.setenv("WLK_OPTION_POLICY", "local-agreement")

    settings = choose_settings(
        registry,
        policy="local-agreement" if how == "flag" else None,
        pairs=["policy=local-agreement"] if how == "pair" else [],
    )

    assert options_of(settings) == {"policy": "local-agreement"}


@pytest.mark.parametrize(
    ("file", "variables", "flags", "message"),
    [
        ("[options.toy]\nbeamsize = 1", {}, {}, "{path}, key options.toy.beamsize: toy: no option"),
        ("[options.toy]\nbeam_size = 99", {}, {}, "{path}, key options.toy.beam_size: toy: option"),
        ("[options.toy]\npolicy = 'x'", {}, {}, "{path}, key options.toy.policy: toy: option poli"),
        (
            POLICIES.replace("alignatt", "local-agreement"),
            {},
            {},
            "{path}, key options.toy.border_seconds: toy: policy=local-agreement takes no border",
        ),
        ("language = 'xx'", {}, {}, "{path}, key language: toy does not support the language 'xx'"),
        ("language = 'de'", {}, {"backend": "other"}, "{path}, key language: other detects the la"),
        ("", {"WLK_OPTION_BEAM_SIZE": "x"}, {}, "WLK_OPTION_BEAM_SIZE: toy: option beam_size must"),
        ("", {"WLK_LANGUAGE": "xx"}, {}, "WLK_LANGUAGE: toy does not support the language 'xx'"),
        ("", {}, {"pairs": ["beamsize=1"]}, "toy: no option is called 'beamsize' (did you mean"),
    ],
)
def test_a_mistake_is_named_by_its_file_and_key_or_its_variable(  # noqa: PLR0917 -- fixtures
    registry, layers, path, file, variables, flags, message
):
    """The error for a flag names no origin: users see what they typed."""
    layers(file, variables)

    with pytest.raises(OptionError, match=f"^{re.escape(message.format(path=path))}"):
        choose_settings(registry, **flags)


def test_a_backend_of_the_file_that_is_absent_is_named(registry, write, path):
    """The error for a backend that is not installed names the file and key."""
    write("backend = 'nope'")

    with pytest.raises(BackendUnavailable, match=re.escape(f"{path}, key backend: no back")):
        choose_settings(registry)


@pytest.mark.parametrize("name", ["toy", "whisper", "something-else"])
def test_a_command_leaves_options_of_other_backends_alone(registry, write, name):
    """This holds whether the other backends are installed or not."""
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
