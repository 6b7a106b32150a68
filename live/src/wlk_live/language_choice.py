"""Several languages in one value, such as "en,de", among which a model may detect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.errors import OptionError
from wlk_core.languages import find_language
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec

OPTION = "languages"  #: the stream option of backends that can detect among some languages


def checked_language(text: str, spec: BackendSpec) -> str:
    """
    Return the code of the language in *text*, or the codes of several, separated by commas.

    Raises:
        OptionError: *spec* does not have one of them, or cannot choose among several.

    """
    names = [name for name in text.split(",") if name.strip()] or [text]
    codes = dict.fromkeys(find_language(name.strip(), spec.languages) for name in names)
    for code in codes:
        spec.check_language(code)
    if len(codes) > 1 and not any(option.name == OPTION for option in spec.options):
        raise OptionError(
            f"{spec.name} cannot detect among some languages only; expected one language or auto, "
            f"got {shown(text)}"
        )
    return ",".join(codes)


def forced_language(language: str | None) -> str | None:
    """Return the code of a language; None if it has to be detected, also among several."""
    return None if language is None or "," in language else language


def language_arguments(language: str | None) -> dict[str, str | None]:
    """Return the arguments of `Backend.create_processor` for a `checked_language` or None."""
    if language is not None and "," in language:
        return {"language": None, OPTION: language}
    return {"language": language}
