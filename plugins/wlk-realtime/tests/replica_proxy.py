"""A proxy in front of replicas, which passes connections on without reading them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
import threading


class ReplicaProxy:
    """
    Gives each connection to the first replica that accepts it; a context manager.

    A connection ends where its replica or its client ends, as at a balancer of TCP.
    """

    def __init__(self, ports):
        self._ports = list(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server = None
        self.counts = dict.fromkeys(self._ports, 0)  #: connections of each replica

    @property
    def url(self):
        """The address as users write it."""
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1/realtime"

    def __enter__(self):
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        return self

    def __exit__(self, *_error):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _end(self):
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        for port in self._ports:
            with suppress(ConnectionRefusedError):
                replica = await asyncio.open_connection("127.0.0.1", port)
                self.counts[port] += 1
                await asyncio.gather(_copy(reader, replica[1]), _copy(replica[0], writer))
                return
        writer.transport.abort()


async def _copy(reader, writer):
    """Copy until either side ends, and end the other one."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
