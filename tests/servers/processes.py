"""Child processes of the tests: started with a log file, waited for with a deadline, and never left behind.

What is particular to one server (its flags, what "ready" means) stays in that server's module.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LOG_TAIL_LINES = 30
POLL_SECONDS = 0.02

# Runs in the child before the server: ask the kernel to kill it when the thread that started it ends, so that
# a test run that is itself killed leaves nothing behind. A small program of its own instead of preexec_fn,
# because Python code between fork and exec can deadlock in a process with threads, and the tests have many.
DIE_WITH_PARENT = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None)
if hasattr(libc, "prctl"):
    PR_SET_PDEATHSIG = 1
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the test run ended before the server started")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerError(Exception):
    """A server of the tests did not start, died or refused a command; the text carries what it logged."""


def free_port() -> int:
    """A free TCP port of 127.0.0.1 for a server that is about to start.

    Taken from below the range the kernel gives to outgoing connections (32768 and up on Linux): a port from
    bind(0) may be taken by somebody's connection before the server gets to it.
    """
    for _ in range(100):
        port = 20000 + secrets.randbelow(12000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT is free
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ServerError("100 random ports between 20000 and 32000 were all taken.")


def wait_until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Poll until the condition holds. `what` ends the sentence "not ... after 10 s" of the error."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not {what} after {seconds:.0f} s")
        time.sleep(POLL_SECONDS)


class ServerProcess:
    """One running server. Leaving the context stops it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        trampoline = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(os.getpid())]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*trampoline, *map(str, command)],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until the condition holds; it may raise OSError for as long as the server is not listening."""

        def holds() -> bool:
            status = self._process.poll()
            if status is not None:
                raise ServerError(f"{self.name} ended with status {status} before {what}. {self._tail()}")
            try:
                return condition()
            except OSError:
                return False

        try:
            wait_until(holds, what, seconds)
        except TimeoutError as late:
            raise ServerError(f"{self.name}: {late}. {self._tail()}") from late

    def stop(self, seconds: float = 10) -> None:
        """Ask the server to end, insist after some seconds, and return when it is gone."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "It logged nothing." if not lines else "\n".join([f"The end of {self.log}:", *lines])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
