"""The languages among which a model detects the one that is spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.languages import find_language
from wlk_core.plugins import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.plugins import StreamConfig


def detectable_languages(config: StreamConfig, known: Sequence[str]) -> tuple[str, ...]:
    """
    Return the codes among *known* that the option `languages` allows; () for all of them.

    A stream with a language detects none, so it has none to choose among either.

    Raises:
        OptionError: one of the languages is not *known*.

    """
    names = (config.options["languages"] or "").split(",")
    codes = dict.fromkeys(find_language(name.strip(), known) for name in names if name.strip())
    for code in codes:
        if code not in known:
            raise OptionError(
                f"expected option languages as codes among {', '.join(known)}, got {code!r}"
            )
    return tuple(codes) if config.language is None else ()
