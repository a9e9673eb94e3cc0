"""Starts a real `covey serve` process for tests, on a free port; stops it and hands back what it printed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 60


@dataclass
class ServerProcess:
    """A running server. uri: where it listens; log: the file with what it printed."""

    uri: str
    pid: int
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self, timeout: float = 15) -> int:
        """Ask the server to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop within {timeout} s:\n{self.output()}") from None

    def output(self) -> str:
        """What the server has printed so far."""
        return self.log.read_text("utf-8")


def serve(tmp_path: Path, *args: str, ready_seconds: float = READY_SECONDS) -> ServerProcess:
    """Start a server with these arguments and wait until it is ready."""
    ready = tmp_path / "ready"
    log = tmp_path / "server.log"
    command = [sys.executable, "-m", "covey_server", "--port", "0", "--ready-file", str(ready), *args]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=tmp_path)
    deadline = time.monotonic() + ready_seconds
    while not ready.exists():
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{log.read_text('utf-8')}")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise AssertionError(f"the server was not ready in time:\n{log.read_text('utf-8')}")
        time.sleep(0.02)
    return ServerProcess(ready.read_text("utf-8").strip(), process.pid, log, process)
