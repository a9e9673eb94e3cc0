"""A server for the length of the demo: started on a temporary folder, stopped by its process id."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DATA = Path(__file__).with_name("data")
# On the demo's short tickets the embedded model says "no" to nearly everything in its default profile.
PROFILE = "smollm2_question_first"
START_SECONDS = 300.0  # the first start may have to fetch the model
STOP_SECONDS = 15.0


class StartError(OSError):
    """The server ended, or took too long, before it was ready."""


@contextmanager
def own_server() -> Iterator[str]:
    """Start `covey serve` on the demo's tables; yields its uri, and stops it whatever happens."""
    with tempfile.TemporaryDirectory(prefix="covey-demo-") as place:
        ready, log = Path(place, "ready"), Path(place, "server.log")
        command = [sys.executable, "-m", "covey", "serve", "--port", "0", "--ready-file", str(ready)]
        command += ["--database", str(Path(place, "demo.duckdb")), "--data", str(DATA), "--profile", PROFILE]
        with log.open("w") as said:
            process = subprocess.Popen(
                command, cwd=place, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )
        try:
            with leaving_on_sigterm(process, place):
                yield wait_until_ready(process, ready, log)
        finally:
            stop(process)


def wait_until_ready(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    """Return the uri that the server writes into its ready file once it listens."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if ready.is_file() and (uri := ready.read_text().strip()):
            return uri
        if process.poll() is not None:
            raise StartError(last_line(log) or f"the server ended with exit code {process.returncode}")
        time.sleep(0.05)
    raise StartError(f"the server was not ready after {START_SECONDS:.0f} s: {last_line(log)}")


@contextmanager
def leaving_on_sigterm(process: subprocess.Popen[bytes], place: str) -> Iterator[None]:
    """Stop the server, clear up and end at SIGTERM, even while the main thread waits inside the driver."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    leaving = threading.Event()

    def listen() -> None:
        while number := os.read(heard, 1):
            if number[0] == signal.SIGTERM:
                leaving.set()
                silence()
                stop(process)
                shutil.rmtree(place, ignore_errors=True)
                os._exit(128 + signal.SIGTERM)
        os.close(heard)

    # A handler of Python's runs only between two of its own steps, but its number is written at once.
    before, fd = signal.signal(signal.SIGTERM, lambda number, frame: None), signal.set_wakeup_fd(told)
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    finally:
        if leaving.is_set():
            # The main thread fails because its server is being stopped; the listener ends the process.
            listener.join()
        signal.set_wakeup_fd(fd)
        signal.signal(signal.SIGTERM, before)
        os.close(told)


def silence() -> None:
    """Say no more: what fails from here on fails because the server is being stopped."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def last_line(log: Path) -> str:
    """Return the last thing the server said, without its name in front."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("covey: ") if lines else ""


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server: politely, then at once."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
