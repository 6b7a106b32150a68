"""config.toml as it is read, and its mistakes."""

from __future__ import annotations

import re

import pytest

from wlk_core import OptionError
from wlk_core.config import config_path, read_config

WHOLE = """\
# mine
backend = "toy"
model = "small"  # fast enough
language = "de"

[options.toy]
device = "cuda"
fast = true
beam_size = 5

[options]
other.beam_size = 2
"""


def test_the_file_is_in_the_directory_of_the_variable(path):
    """WLK_HOME chooses the directory."""
    assert path == config_path()


def test_without_the_variable_it_is_in_the_users_directory(monkeypatch):
    """Platformdirs chooses the directory otherwise."""
    monkeypatch.setenv("WLK_HOME", "")

    assert config_path().parts[-2:] == ("wlk-core", "config.toml")


def test_no_file_is_an_empty_configuration():
    """Nothing has to exist."""
    config = read_config()

    assert (config.backend, config.model, config.language, config.options) == (None,) * 3 + ({},)


def test_every_value_is_read_with_its_line(write, path):
    """Values keep their types, and each has an origin of file, line and key."""
    write(WHOLE)

    config = read_config()

    assert (config.backend, config.model, config.language) == ("toy", "small", "de")
    assert config.options == {
        "toy": {"device": "cuda", "fast": True, "beam_size": 5},
        "other": {"beam_size": 2},
    }
    assert config.origin("language") == f"{path}, line 4, key language"
    assert config.origin("options", "toy", "beam_size").endswith(
        ", line 9, key options.toy.beam_size"
    )
    assert config.line("options", "other", "beam_size") == 12


def test_a_byte_order_mark_is_read_over(path):
    """Editors on Windows write one."""
    path.parent.mkdir()
    path.write_bytes(b'\xef\xbb\xbfmodel = "small"\n')

    assert read_config().model == "small"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = small", ", line 1: invalid value"),
        ('\n\nmodel "small"', ", line 3: expected '=' after a key in a key/value pair"),
        ('model = "a"\nmodel = "b"', ", line 2: cannot overwrite a value"),
        ("model = 5", ", line 1, key model: expected a text, got 5"),
        ("model = ''", ", line 1, key model: expected a text, got ''"),
        ("# x\nlanguage = ['de']", ", line 2, key language: expected a text, got a list"),
        (
            "modle = 'a'",
            ", line 1, key modle: unknown key (did you mean model?); expected one of",
        ),
        ("[backends.toy]\na = 1", ", line 1, key backends: unknown key (did you mean backend?)"),
        ("options = 1", ", line 1, key options: expected a table for each backend, got 1"),
        ("[options]\ntoy = 1", ", line 2, key options.toy: expected options, below a line [opt"),
        (
            "[options.toy]\na = 1\nb = []",
            ", line 3, key options.toy.b: expected a text, a number, ",
        ),
        ("[options.toy]\nb = {c = 1}", ", line 2, key options.toy.b: expected a text, a number, t"),
        ("[options.toy]\nb = 2020-01-01", ", line 2, key options.toy.b: expected a text, a number"),
        ("x = " + "[" * 5000, " is nested too deep"),
    ],
    ids=range(14),
)
def test_a_mistake_names_file_line_and_key(write, path, text, message):
    """The message leads to the mistake, wherever it is."""
    write(text)

    with pytest.raises(OptionError, match=re.escape(f"{path}{message}")):
        read_config()


def test_a_file_of_another_encoding_is_named(path):
    """Text that is not UTF-8 is one line."""
    path.parent.mkdir()
    path.write_bytes('model = "gro\u00df"'.encode("latin-1"))

    with pytest.raises(OptionError, match=re.escape(f"{path} is no UTF-8 text")):
        read_config()


def test_a_directory_in_its_place_is_named(path):
    """So is what cannot be read at all."""
    path.mkdir(parents=True)

    with pytest.raises(OptionError, match=re.escape(f"{path} cannot be read")):
        read_config()
