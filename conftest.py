"""Settings and fixtures that several test folders share: hypothesis, and streams of coded audio."""

from __future__ import annotations

from hypothesis import settings
import pytest

# No deadline, because a slow test on a busy machine is not a failure; the same examples on every
# run, because a failure must be reproducible.
settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def coded():
    """Return the module of coded audio; skip the test if wlk-conformance is not installed."""
    return pytest.importorskip("wlk_conformance.testing.coded_audio")


@pytest.fixture(scope="session")
def script(coded):
    """Return the coded tokens of `speech`."""
    return [coded.CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]


@pytest.fixture
def open_coded():
    """Return a function that opens a stream of the scripted backend; see EngineFaults."""
    from wlk_conformance import EngineFaults  # noqa: PLC0415 -- as above
    from wlk_conformance.scripted import ScriptedBackend  # noqa: PLC0415 -- as above

    def open_coded(fail_at=(), before_call=None):
        backend = ScriptedBackend(fail_before=fail_at)
        EngineFaults.of(backend.engine_calls).before_call = before_call
        return backend.create_processor()

    return open_coded


@pytest.fixture
def speech(coded, script):
    """Return ten seconds of coded audio, float32[n]."""
    return coded.encode(script, cells=126)


@pytest.fixture
def words(coded, script):
    """Return the words of `speech` with their times."""
    from wlk_conformance.scripted import DIGIT_WORDS  # noqa: PLC0415 -- as above

    return coded.script_words(script, DIGIT_WORDS)


@pytest.fixture
def text(words):
    """Return the text of `speech`."""
    return "".join(word.text for word in words).strip()
