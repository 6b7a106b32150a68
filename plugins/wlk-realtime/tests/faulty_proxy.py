"""A proxy that damages the messages of a server."""

from __future__ import annotations

from http.client import HTTPConnection
import threading
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response
from websockets.sync.client import connect
from websockets.sync.server import serve


class FaultyProxy:
    """
    Relay WebSockets to a server; a context manager.

    `faults` maps messages of the server, numbered from 1 over all connections, to their faults:
    "cut" the connection before it, "duplicate" it, "truncate" it to half its length, "delay" it
    until the client has given up.
    """

    def __init__(self, upstream, faults=()):
        self._upstream = upstream
        self._faults = dict(faults)
        self._count = 0
        self.connections = 0
        self._server = serve(
            self._relay,
            "127.0.0.1",
            0,
            process_request=self._answer,
            max_size=None,
        )
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self):
        """The address to give to a backend."""
        return f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/v1/realtime"

    @property
    def is_spent(self):
        """Whether every fault has happened."""
        return not self._faults

    def _answer(self, _connection, request):
        """Pass on plain HTTP requests."""
        if request.headers.get("Upgrade"):
            return None
        http = HTTPConnection(urlsplit(self._upstream).netloc, timeout=30)
        http.request("GET", request.path)
        answer = http.getresponse()
        body = answer.read()
        http.close()
        headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
        return Response(answer.status, answer.reason, headers, body)

    def _relay(self, client):
        self.connections += 1
        with connect(self._upstream, compression=None, max_size=None) as server:
            upwards = threading.Thread(target=_copy, args=(client, server))
            upwards.start()
            try:
                for message in server:
                    if not self._pass(client, message, upwards):
                        break
            except ConnectionClosed:
                pass
            server.close()
            client.close()
            upwards.join()

    def _pass(self, client, message, upwards):
        """Send *message* with its fault, if any; return whether to continue."""
        self._count += 1
        fault = self._faults.pop(self._count, None)
        if fault == "cut":
            return False
        if fault == "delay":
            upwards.join()  # until the client has closed its side
        client.send(message[: len(message) // 2] if fault == "truncate" else message)
        if fault == "duplicate":
            client.send(message)
        return True

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._thread.join()


def _copy(source, target):
    try:
        for message in source:
            target.send(message)
    except ConnectionClosed:
        pass
    target.close()  # so that the other direction ends, too
