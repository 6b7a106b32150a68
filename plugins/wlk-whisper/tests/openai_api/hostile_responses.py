"""Responses of a server that wants to exhaust the memory or the time of its clients."""

from __future__ import annotations

import threading
import zlib

__all__ = ["TRICKLES", "Endless", "compressed"]

PACE_SECONDS = 0.01  # between two bytes of a server that trickles


def compressed(encoding, layers=1, megabytes=64):
    """Return a response of spaces, compressed *layers* times to a thousandth each."""
    wbits = {"gzip": 31, "deflate": 15}.get(encoding.split(",")[0], 31)
    compressor = zlib.compressobj(9, zlib.DEFLATED, wbits)
    block = b" " * (1 << 20)
    data = b"".join(compressor.compress(block) for _ in range(megabytes)) + compressor.flush()
    for _ in range(layers - 1):
        data = zlib.compress(data, 9, wbits=wbits)
    return lambda handler: handler.reply(
        200, data, "application/json", {"content-encoding": encoding}
    )


class Endless:
    """
    A response without an end: *head*, then *block* again and again until the client is gone.

    With *paced* it pauses between two blocks.  `sent` counts bytes, and `ended` is set when the
    client has closed the connection.
    """

    def __init__(self, head, block, *, paced=False):
        self.head, self.block, self.paced = head, block, paced
        self.sent = 0
        self.ended = threading.Event()

    def __call__(self, handler):
        """Send until the connection is closed."""
        handler.close_connection = True
        try:
            handler.wfile.write(self.head)
            while not (self.paced and self.ended.wait(PACE_SECONDS)):
                handler.wfile.write(self.block)
                self.sent += len(self.block)
        except OSError:
            pass
        finally:
            self.ended.set()


START = b"HTTP/1.1 200 OK\r\n"
BODY = START + b"content-type: application/json\r\n\r\n"

#: Where a server can stay slow: in the middle of a line, between headers, in front of the headers,
#: in the body, in a chunk of it.
TRICKLES = {
    "status": (b"HTTP/1.1 ", b"2"),
    "header": (START + b"x: ", b"a"),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (BODY, b" "),
    "chunks": (START + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}
