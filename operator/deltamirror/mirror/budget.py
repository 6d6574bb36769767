"""Two limits on moving bytes: how many may be in memory at once, for the whole process, and how many a sync may move in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

BYTES_IN_FLIGHT = 512 * 1024 * 1024


class ByteBudget:
    """Admits work while the bytes it holds stay below a limit; something larger than the limit goes alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        size = min(size, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._used + size <= self._limit)
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()


in_flight = ByteBudget(BYTES_IN_FLIGHT)


class Throttle:
    """Keeps the average below a rate: whoever took bytes waits until their time has passed."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + size / self._rate
            wait = self._free_at - now
        time.sleep(wait)
