"""Several languages in one value, among which a model may detect."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from wlk_core.backend import BackendSpec
from wlk_core.errors import OptionError
from wlk_core.options import Option
from wlk_live.config import choose_settings
from wlk_live.language_choice import checked_language, forced_language, language_arguments


def declared(**fields):
    """Return a spec of a backend with two languages."""
    fields = {"capabilities": ["language-forcing"], "languages": ("en", "de"), **fields}
    return BackendSpec(name="toy", api=1, summary="a toy", load="toy:load", **fields)


CHOOSES = declared(options=(Option(name="languages", scope="stream"),))


@pytest.mark.parametrize(
    ("text", "codes"),
    [("German", "de"), ("en,de", "en,de"), (" en-US, German ,", "en,de"), ("de,de", "de")],
)
def test_languages_are_named_as_one_is(text, codes):
    """By code, tag or name; a repeated one counts once."""
    assert checked_language(text, CHOOSES) == codes


@pytest.mark.parametrize(
    ("spec", "text", "reason"),
    [
        (CHOOSES, "en,xx", "does not support the language 'xx'"),
        (CHOOSES, ",", "does not support the language ','"),
        (declared(), "en,de", "toy cannot detect among some languages only"),
        (declared(capabilities=[]), "en,de", "detects the language by itself"),
    ],
    ids=["unknown", "none", "one or all", "never forced"],
)
def test_what_a_backend_cannot_do_is_refused(spec, text, reason):
    """A backend with no such option would detect any language."""
    with pytest.raises(OptionError, match=reason):
        checked_language(text, spec)


def test_several_languages_force_none():
    """They are an option of the stream, which detects the language."""
    assert language_arguments("en,de") == {"language": None, "languages": "en,de"}
    assert language_arguments("en") == {"language": "en"}
    assert language_arguments(None) == {"language": None}
    assert [forced_language(each) for each in ("en,de", "en", None)] == [None, "en", None]


@pytest.mark.parametrize("language", ["en", "en,de"])
def test_a_flag_for_several_languages_overrides_the_language_of_the_file(
    language, tmp_path, monkeypatch
):
    """Flags take precedence, and `--option languages=` says more than a language does."""
    monkeypatch.setenv("WLK_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text(f'language = "{language}"\n')
    registry = SimpleNamespace(spec=lambda _name: CHOOSES)
    chosen = choose_settings(registry, backend="toy", pairs=["languages=de,en"])

    assert (chosen.language, chosen.options.stream["languages"]) == (None, "de,en")
