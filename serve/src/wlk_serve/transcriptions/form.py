"""A form of type multipart/form-data, parsed as its bytes come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from python_multipart.multipart import MultipartCallbacks

__all__ = ["UploadForm"]

_MAX_FIELDS = 100
_MAX_FIELD_BYTES = 1 << 20  # of all fields together: prompts and keywords
_FILE = "file"
_UNUSED = {"known_speaker_references", "known_speaker_references[]"}  # megabytes that nothing reads


class UploadForm:
    """
    The fields of a form and its one file, which is written while it arrives.

    A plain object without sockets.  Recordings of known speakers are left out of their fields.

    Args:
        content_type: the header of the request; a form of another type has no fields.
        write: called with the pieces of the recording.

    Raises:
        RequestError: the header names no boundary.

    """

    def __init__(self, content_type: str, write: Callable[[bytes], object]) -> None:
        self.fields: list[tuple[str, str]] = []
        self.has_file = False  #: whether the recording has begun
        self._write = write
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[str, bytes] = {}
        self._name = ""
        self._value: bytearray | None = None  # None in the file
        self._field_bytes = 0
        self._is_over = False
        kind, options = parse_options_header(content_type)
        self._parser: MultipartParser | None = None
        if kind == b"multipart/form-data":
            if not options.get(b"boundary"):
                raise _invalid("the header content-type has no boundary")
            self._parser = self._opened(options[b"boundary"])

    def feed(self, data: bytes) -> None:
        """
        Parse the next bytes of the body.

        Raises:
            RequestError: it is not a form, or holds more than one file or too much else.

        """
        if self._parser is None:
            return
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _invalid(str(error)) from error

    def finish(self) -> None:
        """
        Declare that the body is over.

        Raises:
            RequestError: the form ends in the middle.

        """
        if self._parser is not None and not self._is_over:
            raise _invalid("the form ends in the middle")

    def _opened(self, boundary: bytes) -> MultipartParser:
        callbacks: MultipartCallbacks = {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._add_header_name,
            "on_header_value": self._add_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_part,
            "on_part_data": self._add_data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        try:
            return MultipartParser(boundary, callbacks)
        except FormParserError as error:
            raise _invalid(str(error)) from error

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header_name.decode("latin-1").lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _begin_part(self) -> None:
        disposition = self._headers.get("content-disposition", b"").decode("latin-1")
        _, options = parse_options_header(disposition)
        if b"name" not in options:
            raise _invalid("a part has no name")
        self._name = options[b"name"].decode("utf-8", "replace")
        if b"filename" not in options:
            self._value = bytearray()
            if len(self.fields) >= _MAX_FIELDS:
                raise _invalid("more fields")
            return
        if self.has_file:
            raise _invalid("more files")
        if self._name != _FILE:
            raise _invalid(f"a file called {self._name[:100]!r}")
        self._value, self.has_file = None, True

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._value is None:
            self._write(data[start:end])
            return
        if self._name in _UNUSED:
            return
        self._value += data[start:end]
        self._field_bytes += end - start
        if self._field_bytes > _MAX_FIELD_BYTES:
            raise _invalid(f"fields of more than {_MAX_FIELD_BYTES} bytes")

    def _end_part(self) -> None:
        if self._value is not None:
            self.fields.append((self._name, self._value.decode("utf-8", "replace")))

    def _end(self) -> None:
        self._is_over = True


def _invalid(found: str) -> RequestError:
    return RequestError(
        f"expected a form of one file called {_FILE} and up to {_MAX_FIELDS} fields: {found}",
        code="invalid_form",
    )
