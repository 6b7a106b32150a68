"""
Read protobuf messages without generated classes; sherpa-onnx brings neither onnx nor protobuf.

A message is a sequence of fields.  Each begins with a key, which holds the number of the field and
the wire type of its value (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import struct
from typing import Any

# Wire types, and the bytes of those with a fixed size.
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10  # of 7 bits each, for a number of 64 bits


class Message:
    """
    The values of a message by field number; a repeated field has several.

    Values are slices of *data*, parsed when they are asked for, so that the weights in a file that
    is mapped into memory are never read.

    Raises:
        ValueError: *data* is not a message.

    """

    def __init__(self, data: memoryview) -> None:
        self._values: dict[int, list[int | memoryview]] = {}
        position = 0
        while position < len(data):
            key, position = _read_varint(data, position)
            value, position = _read_value(data, position, wire_type=key & 7)
            self._values.setdefault(key >> 3, []).append(value)

    def messages(self, number: int) -> list[Message]:
        """Return all messages in field *number*; ValueError if one cannot be parsed."""
        return [Message(_as_bytes(value)) for value in self._values.get(number, ())]

    def message(self, number: int) -> Message:
        """Return the message in field *number*; ValueError if it is missing."""
        return Message(_as_bytes(self._last(number)))

    def text(self, number: int, default: str | None = None) -> str:
        """Return the text in field *number*; ValueError if it is missing without a *default*."""
        if default is not None and number not in self._values:
            return default
        return bytes(_as_bytes(self._last(number))).decode()

    def float32(self, number: int) -> float:
        """Return the float in field *number*; ValueError if it is missing."""
        data = _as_bytes(self._last(number))
        if len(data) != _FIXED_BYTES[_FIXED32]:
            raise ValueError(f"its field {number} is not a float")
        value: float = struct.unpack("<f", data)[0]
        return value

    def integer(self, number: int, default: int) -> int:
        """Return the integer in field *number*, *default* if it is missing."""
        value = self._values.get(number, [default])[-1]
        if not isinstance(value, int):
            raise ValueError(f"its field {number} is not an integer")  # noqa: TRY004 -- of damaged data
        return value

    def _last(self, number: int) -> Any:
        """Return the value that counts if a field occurs more often than it may: the last one."""
        if number not in self._values:
            raise ValueError(f"it lacks the field {number}")
        return self._values[number][-1]


def _as_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a field is an integer, but should not be")  # noqa: TRY004 -- as above
    return value


def _read_value(data: memoryview, position: int, *, wire_type: int) -> tuple[int | memoryview, int]:
    """Return the value at *position*, and the position after it."""
    if wire_type == _VARINT:
        return _read_varint(data, position)
    if wire_type == _LENGTH_DELIMITED:
        size, position = _read_varint(data, position)
    elif wire_type in _FIXED_BYTES:
        size = _FIXED_BYTES[wire_type]
    else:
        raise ValueError(f"it has a field of unknown wire type {wire_type}")
    end = position + size
    if end > len(data):
        raise ValueError("it is truncated")
    return data[position:end], end


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the number at *position*, whose lowest bits come first, and the position after it."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if position + index >= len(data):
            raise ValueError("it is truncated")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        is_last = byte < 0x80  # noqa: PLR2004 -- the highest bit announces another byte
        if is_last:
            return value, position + index + 1
    raise ValueError("a number is too long")
