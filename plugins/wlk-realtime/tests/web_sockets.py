"""A server of WebSockets with a list of models, in threads of this process."""

from __future__ import annotations

from contextlib import contextmanager
import json
import threading

from websockets.sync.server import serve


@contextmanager
def running(server):
    """Yield the address of *server*, which has `serve(connection)` and `models()`."""

    def answer(connection, request):
        if request.path.endswith("/models"):
            return connection.respond(200, json.dumps(server.models()))
        return None

    with serve(server.serve, "127.0.0.1", 0, process_request=answer, compression=None) as sockets:
        thread = threading.Thread(target=sockets.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{sockets.socket.getsockname()[1]}/v1/realtime"
        finally:
            sockets.shutdown()
            thread.join()
