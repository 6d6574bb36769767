"""What the engine has to know of a SharedTable, in the engine's own terms."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from deltamirror.api import SharedTable, units
from deltamirror.delta import features
from deltamirror.sharing import TableName

LAYOUT = "1"


@dataclass(frozen=True, slots=True)
class Settings:
    table: TableName
    owner: str
    """Who may write this mirror: one SharedTable of one cluster."""
    removed_files_seconds: float
    log_seconds: float
    concurrency: int
    adopt: bool = False

    @classmethod
    def of(cls, shared: SharedTable, *, cluster: str = "local") -> Settings:
        source, retention = shared.spec.source, shared.spec.retention
        return cls(
            table=TableName(source.share, source.schema, source.table),
            owner=f"{cluster}/{shared.metadata.namespace}/{shared.metadata.name}",
            removed_files_seconds=units.seconds(retention.removed_files),
            log_seconds=units.seconds(retention.log),
            concurrency=shared.spec.transfer.concurrency,
        )

    @property
    def digest(self) -> str:
        """Changes whenever these settings or the feature policy would make another mirror of the same source version."""
        policy = sorted((f.name, f.policy) for f in features.FEATURES.values())
        properties = sorted((p.name, p.policy) for p in features.PROPERTIES.values())
        content: list[Any] = [LAYOUT, self.owner, self.removed_files_seconds, self.log_seconds, policy, properties]
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]
