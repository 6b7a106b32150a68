from __future__ import annotations

import pytest

from wlk_live.cli import transcribe


@pytest.fixture(autouse=True)
def sample(monkeypatch, save, spoken, loud_is_speech):
    """Replace the sample by coded audio."""
    path = save("demo.wav", spoken(4, 2, 7, 7, 1))
    monkeypatch.setattr(transcribe, "SAMPLE", path)


def test_the_demo_is_the_sample_as_it_is_spoken(command, clock, monkeypatch):
    """The user's settings, which may name another model or language, change nothing."""
    monkeypatch.setenv("WLK_MODEL", "acme/huge")
    monkeypatch.setenv("WLK_LANGUAGE", "de")

    assert command("demo") == (0, "four two seven seven one\n", "")
    assert clock.seconds == pytest.approx(52.48)
    assert command("demo", "--fast").out == "four two seven seven one\n"
    assert clock.seconds == pytest.approx(52.48)


def test_the_recording_can_be_kept(command, tmp_path):
    """The file is a copy of the recording, and a second run accepts it."""
    path = tmp_path / "kept.flac"

    first = command("demo", "--fast", "--save", path)
    second = command("demo", "--fast", "--save", path)

    assert (first.status, second.status) == (0, 0)
    assert path.read_bytes() == transcribe.SAMPLE.read_bytes()


def test_no_other_file_is_replaced_by_the_recording(command, tmp_path):
    """A file with other content, or a missing folder, is refused before any text is printed."""
    other = tmp_path / "notes.txt"
    other.write_text("keep me", encoding="utf-8")

    replaced = command("demo", "--save", other)
    absent = command("demo", "--save", tmp_path / "absent" / "demo.flac")

    assert (replaced.status, replaced.out, absent.status, absent.out) == (2, "", 2, "")
    assert f"--save {other}: it exists; replace it" in replaced.err
    assert f"there is no directory {tmp_path / 'absent'}" in absent.err
    assert other.read_text(encoding="utf-8") == "keep me"


def test_a_backend_without_the_model_is_passed_over(command, site):
    """The demo uses the preferred backend that has the digits model."""
    site.offer("wlk-big", "big", preference=99)

    assert command("demo", "--fast").out.startswith("four")
    done = command("demo", "--backend", "big")
    assert done.status == 1
    assert "backend big has no model digits; see: wlk-core models" in done.err
