"""Whatever a hub answers is validated, or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_core.models.hub_answers import RemoteFile, UnexpectedAnswer, confirmed, read_listing
from wlk_core.models.hub_cache import is_commit, is_inside

REVISION = "a" * 40
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["config.json", "a/b.bin", "a", "../x", "/etc/x", "C:/x", "a//b"])
SIBLINGS = st.fixed_dictionaries(
    {"rfilename": NAMES | JSON},
    optional={
        "size": st.integers(-1, 2**60) | JSON,
        "blobId": st.sampled_from(["b" * 40, ""]) | JSON,
        "lfs": st.fixed_dictionaries({"sha256": st.just("c" * 64) | JSON}) | JSON,
    },
)
LISTINGS = st.fixed_dictionaries(
    {"sha": st.just(REVISION) | JSON, "siblings": st.lists(SIBLINGS | JSON, max_size=4) | JSON}
)


def outcome(call, *arguments, **options):
    """Return the result of a call, or the reason of its refusal, which is one line."""
    try:
        return call(*arguments, **options)
    except UnexpectedAnswer as error:
        assert str(error).isprintable()
        return str(error)


@given(st.binary(max_size=60) | (LISTINGS | JSON).map(lambda content: json.dumps(content).encode()))
@example(b"[" * 200_000)
@example(b'{"sha": ' + b"1" * 5000 + b"}")
def test_a_listing_is_sound_or_refused(content):
    """Any bytes give a commit with files that stay in its snapshot, or a reason."""
    result = outcome(read_listing, content, "acme/base")

    if isinstance(result, tuple):
        revision, files = result
        assert is_commit(revision)
        for name, file in files.items():
            assert (name, True) == (file.name, is_inside(name))
            assert file.size is None or 0 <= file.size <= 2**50
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
            assert file.blob_id is None or len(bytes.fromhex(file.blob_id)) == 20


@given(
    etag=st.none() | st.text(max_size=10) | st.sampled_from(["b" * 40, "c" * 64, "..", "a/b"]),
    commit=st.none() | st.just(REVISION) | st.text(max_size=10),
    size=st.none() | st.integers(-1, 9) | st.integers(),
    listed=st.none() | st.integers(0, 9),
)
def test_the_headers_of_a_file_are_sound_or_refused(etag, commit, size, listed):
    """Any headers give a file with a size and a tag that is a file name, or a reason."""
    file = RemoteFile(name="config.json", size=listed)

    result = outcome(confirmed, file, revision=REVISION, etag=etag, commit=commit, size=size)

    if isinstance(result, RemoteFile):
        assert commit == REVISION
        assert result.size in {listed, size} - {None}
        assert Path("blobs", result.etag).parent == Path("blobs")
        assert result.etag not in {".", ".."}


@given(
    st.text(max_size=12) | st.lists(st.sampled_from(["..", ".", "", "a", "C:", "b"])).map("/".join)
)
def test_a_name_that_is_inside_is_written_in_one_way(name):
    """A name that is let through is the one name of a path below the directory."""
    root = Path("/base/directory")

    if is_inside(name):
        joined = root / name
        assert root in joined.parents
        assert ".." not in joined.parts
        assert joined.relative_to(root).as_posix() == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "a//b", "./a", "a/", "a\nb", "a\x1b[31m", "\x00", "x" * 256, "d/" + "\u00e4" * 128],
)
def test_a_name_that_no_file_can_have_is_left_out(name):
    """Control characters, doubled names and names beyond a file system's limit are not fetched."""
    listing = {"sha": REVISION, "siblings": [{"rfilename": name}]}

    assert read_listing(json.dumps(listing).encode(), "acme/base") == (REVISION, {})


def test_a_file_below_another_file_is_refused():
    """No disk can hold both, so the listing is no hub's."""
    listing = {"sha": REVISION, "siblings": [{"rfilename": "a"}, {"rfilename": "a/b"}]}

    assert "it lists 'a/b' below another file" == outcome(
        read_listing, json.dumps(listing).encode(), "acme/base"
    )


def test_the_blob_of_a_large_file_is_no_checksum_of_its_content():
    """In large-file storage the blob is a pointer: only the SHA-256 counts."""
    sibling = {"rfilename": "a.bin", "blobId": "b" * 40, "lfs": {"sha256": "c" * 64}}
    content = json.dumps({"sha": REVISION, "siblings": [sibling]}).encode()

    assert read_listing(content, "acme/base")[1] == {
        "a.bin": RemoteFile(name="a.bin", sha256="c" * 64)
    }
