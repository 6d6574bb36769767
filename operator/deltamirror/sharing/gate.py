"""One gate per provider, shared by all its tables: how many requests at once, how many a second, and when not to ask at all.

A provider that does not answer costs one attempt per backoff, whoever asks; one that limits us is left alone for as long as it said.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator

from deltamirror.sharing.errors import ProviderUnreachable, RateLimited

CONCURRENCY = 16
PER_SECOND = 50.0
LONGEST_BACKOFF = 60.0


class Gate:
    def __init__(self, name: str, concurrency: int = CONCURRENCY, per_second: float = PER_SECOND) -> None:
        self._name = name
        self._slots = threading.BoundedSemaphore(concurrency)
        self._spacing = 1 / per_second
        self._lock = threading.Lock()
        self._next_slot = 0.0
        self._failures = 0
        self._closed_until = 0.0
        self._probing = False
        self._limited_until = 0.0

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Passes one request, or says at once why not."""
        probe = self._admit()
        try:
            with self._slots:
                self._pace()
                yield
        finally:
            if probe:
                with self._lock:
                    self._probing = False

    def answered(self) -> None:
        """It spoke, whatever it said."""
        with self._lock:
            self._failures = 0
            self._closed_until = 0.0

    def silent(self) -> None:
        """It could not be reached: nobody tries again before the backoff is over."""
        with self._lock:
            self._failures += 1
            backoff = min(LONGEST_BACKOFF, 0.5 * 2 ** min(self._failures, 10))
            self._closed_until = time.monotonic() + random.uniform(backoff / 2, backoff)

    def limit(self, seconds: float) -> None:
        with self._lock:
            self._limited_until = max(self._limited_until, time.monotonic() + seconds)

    @property
    def opens_in(self) -> float:
        with self._lock:
            return max(0.0, self._closed_until - time.monotonic())

    def _admit(self) -> bool:
        with self._lock:
            now = time.monotonic()
            if now < self._limited_until:
                wait = self._limited_until - now
                raise RateLimited(f"the provider at {self._name} limits our requests", retry_after=wait)
            if self._failures:
                if now < self._closed_until or self._probing:
                    wait = max(0.0, self._closed_until - now)
                    raise ProviderUnreachable(
                        f"the provider at {self._name} did not answer {self._failures} times; it is tried again in {wait:.0f} s"
                    )
                self._probing = True
                return True
            return False

    def _pace(self) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next_slot)
            self._next_slot = turn + self._spacing
        if turn > now:
            time.sleep(turn - now)


_gates: dict[str, Gate] = {}
_gates_lock = threading.Lock()


def gate(origin: str) -> Gate:
    """The gate of a provider, by scheme, host and port of its endpoint."""
    with _gates_lock:
        return _gates.setdefault(origin, Gate(origin))
