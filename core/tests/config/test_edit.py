"""Changing config.toml."""

from __future__ import annotations

import pytest

from wlk_core import OptionError
from wlk_core.config import read_config, set_value

WHOLE = """\
# mine

model    = "small"  # fast enough

[options.toy]   # the machine at home
# a remark
device = 'cuda'
"""


def test_the_first_value_makes_the_file(registry, path):
    """Neither the file nor its directory has to exist."""
    assert path == set_value("backend", "toy", registry)
    assert path.read_text() == 'backend = "toy"\n'


def test_what_the_user_wrote_stays(registry, write, path):
    """Comments, order, quotes and blanks are kept."""
    write(WHOLE)

    set_value("model", "base", registry)
    set_value("options.toy.device", "cpu", registry)
    set_value("options.toy.beam_size", "5", registry)

    text = path.read_text()
    assert '# mine\n\nmodel    = "base"  # fast enough\n' in text
    assert "[options.toy]   # the machine at home\n# a remark\n" in text
    assert read_config().options == {"toy": {"device": "cpu", "beam_size": 5}}


def test_options_of_a_new_backend_get_a_table(registry, write, path):
    """A second backend stands in a table of its own."""
    write(WHOLE)

    set_value("options.other.fast", "yes", registry)
    set_value("language", "de", registry)

    assert read_config().options["other"] == {"fast": True}
    assert read_config().language == "de"
    assert "[options.other]\nfast = true\n" in path.read_text()
    assert "[options]\n" not in path.read_text()


def test_a_file_with_a_mistake_is_not_changed(registry, write, path):
    """A mistake has to be mended first; its line is named."""
    write("model = 5\n")

    with pytest.raises(OptionError, match="key model: Expected `str`, got `int`"):
        set_value("language", "de", registry)
    assert path.read_text() == "model = 5\n"


def test_a_link_to_the_file_stays_a_link(registry, path, tmp_path):
    """Users keep their configuration in a repository of dot files."""
    target = tmp_path / "dotfiles.toml"
    target.write_text("# mine\n")
    target.chmod(0o600)
    path.parent.mkdir()
    path.symlink_to(target)

    set_value("model", "base", registry)

    assert path.is_symlink()
    assert target.read_text() == '# mine\nmodel = "base"\n'
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_named(registry, path, tmp_path, monkeypatch):
    """A directory that is a file is one line."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "file" / "home"))

    with pytest.raises(OptionError, match=r"config\.toml cannot be (read|written): "):
        set_value("model", "base", registry)
    assert not path.exists()
