"""Forms, parsed as their bytes come."""

from __future__ import annotations

import io
from itertools import pairwise

from hypothesis import given, strategies
import pytest

from wlk_serve.errors import RequestError
from wlk_serve.transcriptions.form import UploadForm

TYPE = "multipart/form-data; boundary=x"


def part(name, value, filename=None):
    """Return a part of a form."""
    extra = "" if filename is None else f'; filename="{filename}"\r\nContent-Type: audio/flac'
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'
    return head.encode() + value + b"\r\n"


BODY = (
    part("model", b"digits")
    + part("prompt", "Grüße".encode())
    + part("file", b"\r\n--y\r\nsound\r\n-", "a.flac")
    + part("language", b"en")
    + b"--x--\r\n"
)


def parsed(chunks, content_type=TYPE):
    """Return the fields and the file of a body."""
    file = io.BytesIO()
    form = UploadForm(content_type, file.write)
    for chunk in chunks:
        form.feed(chunk)
    form.finish()
    return form.fields, form.has_file, file.getvalue()


@given(strategies.lists(strategies.integers(0, len(BODY)), max_size=8))
def test_a_form_is_the_same_however_it_is_cut(places):
    """Fields may come before and after the file."""
    cuts = [0, *sorted(places), len(BODY)]
    chunks = [BODY[a:b] for a, b in pairwise(cuts)]

    fields = [("model", "digits"), ("prompt", "Grüße"), ("language", "en")]
    assert (fields, True, b"\r\n--y\r\nsound\r\n-") == parsed(chunks)


def test_a_file_is_written_while_it_arrives():
    """Its fields so far are known."""
    file = io.BytesIO()
    form = UploadForm(TYPE, file.write)
    form.feed(BODY[: BODY.index(b"sound") + 5])

    assert (True, "model") == (form.has_file, form.fields[0][0])
    assert file.getvalue().endswith(b"sound")


def test_another_type_has_no_fields():
    """The missing model is reported then."""
    assert ([], False, b"") == parsed([b"{}"], "application/json")
    assert ([], False, b"") == parsed([b""], "")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (BODY, "multipart/form-data"),
        (BODY, "multipart/form-data; boundary=" + "x" * 300),
        (b"no form", TYPE),
        (BODY[:-10], TYPE),
        (b"", TYPE),
        (part("file", b"", "a") + part("file", b"", "b") + b"--x--\r\n", TYPE),
        (part("image", b"", "a") + b"--x--\r\n", TYPE),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--\r\n", TYPE),
        (b"".join(part("a", b"") for _ in range(101)) + b"--x--\r\n", TYPE),
        (b"".join(part(name, bytes(1 << 19)) for name in "abc") + b"--x--\r\n", TYPE),
    ],
    ids=[
        *("no-boundary", "long-boundary", "text", "cut", "empty", "two-files", "other-file"),
        *("no-name", "many-fields", "long-field"),
    ],
)
def test_what_is_no_form_is_one_error(body, content_type):
    """The message describes what a form is."""
    with pytest.raises(RequestError, match="expected a form of one file") as caught:
        parsed([body], content_type)

    assert (400, "invalid_form") == (caught.value.status, caught.value.code)


@given(
    strategies.binary(max_size=200),
    strategies.text(strategies.characters(max_codepoint=255), max_size=30),  # of any header
)
def test_no_bytes_make_a_form_fail_in_another_way(body, content_type):
    """Whatever a client sends."""
    for kind in (TYPE, f"multipart/form-data; boundary={content_type}", content_type):
        try:
            parsed([body], kind)
            parsed([b"--x\r\n" + body], kind)
        except RequestError as error:
            assert "invalid_form" == error.code


@pytest.mark.parametrize("name", ["known_speaker_references", "known_speaker_references[]"])
def test_recordings_of_known_speakers_are_left_out(name):
    """They are megabytes each, and the request only needs to know that they came."""
    body = part(name, b"data:audio/wav;base64," + b"A" * (3 << 20)) + BODY

    fields, has_file, _ = parsed([body])

    assert (name, "") == fields[0]
    assert has_file
