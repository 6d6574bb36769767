"""What the engine has to know of a SharedTable, in the engine's own terms."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from deltamirror.api import SharedTable, units
from deltamirror.api.shared_table import ADOPT_ANNOTATION
from deltamirror.delta import features
from deltamirror.sharing import TableName

LAYOUT = "1"
"""How names and marks are made. A mirror of another layout is not touched."""


@dataclass(frozen=True, slots=True)
class Settings:
    table: TableName
    owner: str
    """Who may write this mirror: one SharedTable of one cluster."""
    removed_files_seconds: float = 7 * 86400.0
    log_seconds: float = 30 * 86400.0
    concurrency: int = 16
    bytes_per_second: int | None = None
    max_bytes: int | None = None
    timeout_seconds: float = 2 * 3600.0
    partition_filter: dict[str, Any] | None = None
    write_protection: bool = False
    allow_unsafe_commits: bool = False
    restart_on_recreation: bool = False
    overwrite_modifications: bool = False
    adopt: bool = False

    @classmethod
    def of(cls, shared: SharedTable, *, cluster: str = "local") -> Settings:
        spec = shared.spec
        source, retention, transfer = spec.source, spec.retention, spec.transfer
        return cls(
            table=TableName(source.share, source.schema, source.table),
            owner=f"{cluster}/{shared.metadata.namespace}/{shared.metadata.name}",
            removed_files_seconds=units.seconds(retention.removed_files),
            log_seconds=units.seconds(retention.log),
            concurrency=transfer.concurrency,
            bytes_per_second=units.size(transfer.bytes_per_second) if transfer.bytes_per_second else None,
            max_bytes=units.size(transfer.max_bytes_per_sync) if transfer.max_bytes_per_sync else None,
            timeout_seconds=units.seconds(transfer.timeout),
            partition_filter=source.partition_filter,
            write_protection=spec.destination.write_protection,
            allow_unsafe_commits=spec.destination.allow_unsafe_commits,
            restart_on_recreation=spec.on_source_recreated == "Restart",
            overwrite_modifications=spec.on_mirror_modified == "Overwrite",
            adopt=ADOPT_ANNOTATION in shared.metadata.annotations,
        )

    @property
    def digest(self) -> str:
        """Changes whenever these settings or the feature policy would make another mirror of the same source version."""
        content = [
            LAYOUT,
            self.owner,
            self.removed_files_seconds,
            self.log_seconds,
            self.partition_filter,
            self.write_protection,
            sorted((f.name, f.policy) for f in features.FEATURES.values()),
            sorted((p.name, p.policy) for p in features.PROPERTIES.values()),
        ]
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]
