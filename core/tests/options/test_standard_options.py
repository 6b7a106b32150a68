from __future__ import annotations

import pytest

from wlk_core import standard_options
from wlk_core.options import Option

STANDARD = {
    name: value for name, value in vars(standard_options).items() if isinstance(value, Option)
}
MADE = [standard_options.device("cpu"), standard_options.dtype("float32")]


@pytest.mark.parametrize("name", sorted(STANDARD))
def test_a_constant_is_called_like_its_option(name: str) -> None:
    """TICK_SECONDS declares tick_seconds, so that authors find it by the name users type."""
    assert name == STANDARD[name].name.upper()
    assert name in standard_options.__all__


@pytest.mark.parametrize("option", [*STANDARD.values(), *MADE], ids=lambda option: option.name)
def test_a_standard_option_is_explained_and_accepts_its_own_default(option: Option) -> None:
    """The default passes the checks of the declaration, and the help is one line."""
    assert option.default == option.convert(option.default, owner="toy")
    assert option.help
    assert "\n" not in option.help


def test_no_former_name_is_that_of_an_option() -> None:
    """A name that was given up is never a name in use, and stands for one option alone."""
    options = [*STANDARD.values(), *MADE]
    former = [name for option in options for name in option.former_names]

    assert len(set(former)) == len(former)
    assert not {option.name for option in options} & set(former)


def test_auto_is_the_first_choice_and_the_default_of_device_and_dtype() -> None:
    """It is a choice on every framework, named by the plugin or not."""
    for make in (standard_options.device, standard_options.dtype):
        assert make("cpu") == make("auto", "cpu")
        assert ("auto", ("auto", "cpu")) == (make("cpu").default, make("cpu").choices)
