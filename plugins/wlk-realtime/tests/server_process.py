"""A wlk-serve in its own process, which tests can kill and restart on the same port."""

from __future__ import annotations

import os
import subprocess
import sys
import threading


class ServerProcess:
    """A server with a bundled model; a context manager."""

    def __init__(self, backend, model="digits", **environment):
        self._backend = backend
        self._model = model
        self._environment = environment
        self.port = 0
        self._process = None
        self._reader = None

    @property
    def url(self):
        """The address to give to a backend."""
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def start(self):
        """Start the server and wait until it is ready; the first start picks the port."""
        command = [sys.executable, "-m", "wlk_serve", "--backend", self._backend]
        command += ["--model", self._model, "--port", str(self.port), "--drain-seconds", "0"]
        command += ["--max-sessions", "1000"]
        command += ["--api-key-env", "TEST_KEYS"] if "TEST_KEYS" in self._environment else []
        self._process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self._environment},
        )
        line = self._process.stderr.readline()
        if "ready on" not in line:
            self.kill()
            raise AssertionError(f"the server did not start: {line}")
        self.port = int(line.split()[3].rpartition(":")[2])
        # The server writes a line per session, and would block if the pipe were full.
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()

    def kill(self):
        """End the server abruptly, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._reader is not None:
                self._reader.join()
                self._reader = None
            self._process.stderr.close()
            self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_error):
        self.kill()
