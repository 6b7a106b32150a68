"""Reading and changing config.toml, and its mistakes."""

from __future__ import annotations

import re

import pytest

from wlk_core import OptionError
from wlk_live.config import config_path, read_config, set_value

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


def test_without_the_variable_it_is_in_the_users_directory(monkeypatch):
    """Without WLK_HOME, platformdirs chooses the directory."""
    monkeypatch.setenv("WLK_HOME", "")

    assert config_path().parts[-2:] == ("wlk-core", "config.toml")


def test_every_value_is_read(write):
    """Values keep their types, and tables may be dotted."""
    write(WHOLE)

    config = read_config()

    assert (config.backend, config.model, config.language) == ("toy", "small", "de")
    assert config.options == {
        "toy": {"device": "cuda", "fast": True, "beam_size": 5},
        "other": {"beam_size": 2},
    }


def test_a_byte_order_mark_is_skipped(path):
    """Editors on Windows write a byte order mark."""
    path.parent.mkdir()
    path.write_bytes(b'\xef\xbb\xbfmodel = "small"\n')

    assert read_config().model == "small"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = small", ": Invalid value (at line 1, column 9)"),
        ('\n\nmodel "small"', ": Expected '=' after a key in a key/value pair (at line 3, col"),
        ('model = "a"\nmodel = "b"', ": Cannot overwrite a value (at "),
        ("model = 5", ", key model: Expected `str`, got `int`"),
        ("model = ''", ", key model: Expected `str` of length >= 1"),
        ("language = ['de']", ", key language: Expected `str`, got `array`"),
        ("modle = 'a'", ": Object contains unknown field `modle`"),
        ("options = 1", ", key options: Expected `object`, got `int`"),
        ("[options]\ntoy = 1", ", key options[...]: Expected `object`, got `int`"),
        ("x = " + "[" * 5000, ": maximum recursion depth exceeded"),
    ],
    ids=range(10),
)
def test_a_mistake_names_the_file_and_the_line_or_key(write, path, text, message):
    """The message locates the mistake, wherever it is."""
    write(text)

    with pytest.raises(OptionError, match=re.escape(f"{path}{message}")):
        read_config()


def test_a_file_of_another_encoding_is_named(path):
    """A file that is not UTF-8 gives one line."""
    path.parent.mkdir()
    path.write_bytes('model = "gro\u00df"'.encode("latin-1"))

    with pytest.raises(OptionError, match=re.escape(f"{path} is not UTF-8 text")):
        read_config()


def test_a_directory_in_its_place_is_named(path):
    """The error for a file that cannot be read names it."""
    path.mkdir(parents=True)

    with pytest.raises(OptionError, match=re.escape(f"{path} cannot be read")):
        read_config()


EDITED = """\
# mine

model    = "small"  # fast enough

[options.toy]   # the machine at home
# a remark
device = 'cuda'
"""


def test_what_the_user_wrote_stays(registry, write, path):
    """Comments, order, quotes and blanks are kept."""
    write(EDITED)

    set_value("model", "base", registry)
    set_value("options.toy.device", "cpu", registry)
    set_value("options.toy.beam_size", "5", registry)

    text = path.read_text()
    assert '# mine\n\nmodel    = "base"  # fast enough\n' in text
    assert "[options.toy]   # the machine at home\n# a remark\n" in text
    assert read_config().options == {"toy": {"device": "cpu", "beam_size": 5}}


def test_options_of_a_new_backend_get_a_table(registry, write, path):
    """A second backend gets a table of its own."""
    write(EDITED)

    set_value("options.other.fast", "yes", registry)
    set_value("language", "de", registry)

    assert read_config().options["other"] == {"fast": True}
    assert read_config().language == "de"
    assert "[options.other]\nfast = true\n" in path.read_text()
    assert "[options]\n" not in path.read_text()


def test_a_file_with_a_mistake_is_not_changed(registry, write, path):
    """The mistake has to be fixed first; the error names its line."""
    write("model = 5\n")

    with pytest.raises(OptionError, match="key model: Expected `str`, got `int`"):
        set_value("language", "de", registry)
    assert path.read_text() == "model = 5\n"


def test_a_file_that_cannot_be_written_is_named(registry, path, tmp_path, monkeypatch):
    """A file in place of the folder gives one line."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "file" / "home"))

    with pytest.raises(OptionError, match=r"config\.toml cannot be (read|written): "):
        set_value("model", "base", registry)
    assert not path.exists()
