"""A queue of keys and the times at which they are due. Level-triggered: a key is in it once, however often it is offered.

kopf has timers and daemons per object; both cost a finalizer and tasks per object, and neither knows an interval per object.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

Key = tuple[str, str]
"""Namespace and name."""


class DueQueue:
    """Only to be used from the event loop's thread. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Key]] = []
        self._due: dict[Key, float] = {}
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._order = itertools.count()
        self._changed = asyncio.Event()

    def offer(self, key: Key) -> None:
        """Something about the key changed: look at it now, or once it is no longer being worked on."""
        if key in self._running:
            self._again.add(key)
        else:
            self._schedule(key, self._clock())

    def forget(self, key: Key) -> None:
        self._due.pop(key, None)
        self._again.discard(key)

    def done(self, key: Key, due: float | None) -> None:
        """The work on a key ended; it is due again at a time, or when it is offered."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self._schedule(key, self._clock())
        elif due is not None:
            self._schedule(key, due)

    async def get(self) -> Key:
        """The next key whose time has come. It stays with the caller until `done`."""
        while True:
            now = self._clock()
            while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
                heapq.heappop(self._heap)  # rescheduled or forgotten since
            if self._heap and self._heap[0][0] <= now:
                _, _, key = heapq.heappop(self._heap)
                del self._due[key]
                self._running.add(key)
                return key
            self._changed.clear()
            timeout = self._heap[0][0] - now if self._heap else None
            try:
                await asyncio.wait_for(self._changed.wait(), timeout)
            except TimeoutError:
                continue

    def _schedule(self, key: Key, due: float) -> None:
        if key not in self._due or due < self._due[key]:
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))
            self._changed.set()
