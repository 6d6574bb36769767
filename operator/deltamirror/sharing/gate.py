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
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0


class Gate:
    def __init__(self, name: str, concurrency: int = CONCURRENCY, per_second: float = PER_SECOND) -> None:
        self._name = name
        self._slots = threading.BoundedSemaphore(concurrency)
        self._spacing = 1 / per_second
        self._lock = threading.Lock()
        self._next_turn = 0.0
        self._failures = 0
        self._closed_until = 0.0
        self._probing = False
        self._limited_until = 0.0

    @contextlib.contextmanager
    def request(self, deadline: float) -> Iterator[None]:
        """Passes one request, or says why not. To be left when the answer begins.

        Whoever reads a long answer slowly, or asks something else while reading, must not keep others from asking.
        """
        with self._lock:
            self._check()
        if not self._slots.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise RateLimited(f"too many requests to the provider at {self._name} are under way already")
        try:
            self._wait_for_turn(deadline)
            with self._lock:
                self._check()  # much may have become known while we waited
                probe = self._failures > 0
                self._probing = self._probing or probe
            try:
                yield
            finally:
                if probe:
                    self._probing = False
        finally:
            self._slots.release()

    def answered(self) -> None:
        """It spoke, whatever it said."""
        with self._lock:
            self._failures = 0
            self._closed_until = 0.0

    def silent(self) -> None:
        """It could not be reached: nobody tries again before the backoff is over."""
        with self._lock:
            now = time.monotonic()
            if now < self._closed_until:
                return  # of many requests that were under way, the first one has said it
            backoff = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._closed_until = now + random.uniform(backoff / 2, backoff)

    def limit(self, seconds: float) -> None:
        with self._lock:
            self._limited_until = max(self._limited_until, time.monotonic() + seconds)

    @property
    def opens_in(self) -> float:
        with self._lock:
            return max(0.0, self._closed_until - time.monotonic())

    def _check(self) -> None:
        now = time.monotonic()
        if now < self._limited_until:
            wait = self._limited_until - now
            raise RateLimited(f"the provider at {self._name} limits our requests", retry_after=wait)
        if self._failures and (now < self._closed_until or self._probing):
            wait = max(0.0, self._closed_until - now)
            times = "once" if self._failures == 1 else f"{self._failures} times"
            raise ProviderUnreachable(
                f"the provider at {self._name} did not answer {times}; it is tried again in {wait:.0f} s"
            )

    def _wait_for_turn(self, deadline: float) -> None:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next_turn)
            if turn > deadline:
                raise RateLimited(f"too many requests to the provider at {self._name} are waiting already")
            self._next_turn = turn + self._spacing
        if turn > now:
            time.sleep(turn - now)


_gates: dict[str, Gate] = {}
_gates_lock = threading.Lock()


def gate(origin: str) -> Gate:
    """The gate of a server, by scheme, host and port."""
    with _gates_lock:
        return _gates.setdefault(origin, Gate(origin))
