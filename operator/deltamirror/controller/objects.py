"""The SharedTables of the cluster as they were last seen, by key."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from deltamirror.controller.due import Key


class Objects:
    """Written by the watch and by our own patches, whichever is newer. Safe for threads: one dict, whole values."""

    def __init__(self) -> None:
        self._known: dict[Key, dict[str, Any]] = {}
        self.due: dict[Key, datetime] = {}
        """When each was to be looked at again, said by its last look."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Key) -> dict[str, Any] | None:
        return self._known.get(key)

    def saw(self, key: Key, body: dict[str, Any]) -> None:
        """Keeps what a reconcile needs. An event that is older than our own last write is passed over."""
        known = self._known.get(key)
        if known is None or _revision(known) <= _revision(body):
            meta = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
            self._known[key] = {**body, "metadata": meta}

    def drop(self, key: Key) -> None:
        self._known.pop(key, None)
        self.due.pop(key, None)


def _revision(body: dict[str, Any]) -> int:
    return int(body["metadata"].get("resourceVersion") or 0)
