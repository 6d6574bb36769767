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
    """Applies actions in the order of the log."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._files: dict[FileKey, Add] = {}
        self._tombstones: dict[FileKey, Remove] = {}
        self._txns: dict[str, Txn] = {}
        self._commit_info: dict[str, Any] = {}

    def apply(self, version: int, line: Line) -> None:
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
        elif line.commit_info is not None and version == self._version:
            self._commit_info = line.commit_info

    def snapshot(self, checkpoint_version: int | None = None) -> Snapshot:
        if self._protocol is None or self._metadata is None:
            raise LogCorrupt(f"the log up to version {self._version} has no protocol or no metadata")
        return Snapshot(
            self._version,
            self._protocol,
            self._metadata,
            self._files,
            self._tombstones,
            self._txns,
            self._commit_info,
            checkpoint_version,
        )
