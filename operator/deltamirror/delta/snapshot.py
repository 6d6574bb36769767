"""The state of a table at a version, and the replay of actions into it (Delta protocol: Action Reconciliation)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deltamirror.delta.actions import Add, FileKey, Line, Metadata, Protocol, Remove, Txn
from deltamirror.delta.errors import LogCorrupt


@dataclass(slots=True)
class Snapshot:
    version: int
    protocol: Protocol
    metadata: Metadata
    files: dict[FileKey, Add]
    tombstones: dict[FileKey, Remove] = field(default_factory=dict)
    txns: dict[str, Txn] = field(default_factory=dict)
    commit_info: dict[str, Any] = field(default_factory=dict)
    """commitInfo of exactly this version, empty if that commit is gone."""
    checkpoint_version: int | None = None


class Replay:
    """Applies actions in the order of the log, from nothing or from a snapshot."""

    def __init__(self, base: Snapshot | None = None) -> None:
        self._protocol = base.protocol if base else None
        self._metadata = base.metadata if base else None
        self._files = dict(base.files) if base else {}
        self._tombstones = dict(base.tombstones) if base else {}
        self._txns = dict(base.txns) if base else {}
        self._commit_info: dict[str, Any] = {}
        self._checkpoint_version = base.checkpoint_version if base else None

    def checkpoint(self, version: int, line: Line) -> None:
        self._checkpoint_version = version
        self._apply(line)

    def commit(self, lines: list[Line]) -> None:
        self._commit_info = {}
        for line in lines:
            if line.commit_info is not None:
                self._commit_info = line.commit_info
            else:
                self._apply(line)

    def _apply(self, line: Line) -> None:
        if line.add is not None:
            self._files[line.add.key] = line.add
            self._tombstones.pop(line.add.key, None)
        elif line.remove is not None:
            self._files.pop(line.remove.key, None)
            self._tombstones[line.remove.key] = line.remove
        elif line.meta_data is not None:
            self._metadata = line.meta_data
        elif line.protocol is not None:
            self._protocol = line.protocol
        elif line.txn is not None:
            self._txns[line.txn.app_id] = line.txn

    def snapshot(self, version: int) -> Snapshot:
        if self._protocol is None or self._metadata is None:
            raise LogCorrupt(f"the log up to version {version} has no protocol or no metadata")
        return Snapshot(
            version,
            self._protocol,
            self._metadata,
            self._files,
            self._tombstones,
            self._txns,
            self._commit_info,
            self._checkpoint_version,
        )
