"""WebSocket servers in threads of this process."""

from __future__ import annotations

from contextlib import contextmanager
import json
import threading

from websockets.sync.server import serve


@contextmanager
def listening(handler, **options):
    """Yield the port of a server that passes its connections to *handler*."""
    with serve(handler, "127.0.0.1", 0, compression=None, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def running(server, tls=None):
    """Yield the address of *server*, which has `serve(connection)` and `models()`."""

    def answer(connection, request):
        if request.path.endswith("/models"):
            return connection.respond(200, json.dumps(server.models()))
        return None

    with listening(server.serve, process_request=answer, ssl=tls) as port:
        yield f"{'ws' if tls is None else 'wss'}://localhost:{port}/v1/realtime"
