"""What can be wrong with a Delta log.

DeltaError
├── LogCorrupt              the log breaks a rule of the Delta protocol
├── NotATable               there is no log here
├── VersionNotFound         the log does not reach that version
├── VersionExists           somebody else committed this version first
├── UnsupportedFeature      a table feature that a mirror cannot keep truthfully
└── DeletionVectorCorrupt   bytes of a deletion vector that are not what its descriptor says
"""

from __future__ import annotations

from deltamirror.errors import Fault, Kind


class DeltaError(Fault):
    reason = "DeltaLogError"


class LogCorrupt(DeltaError):
    reason = "DeltaLogCorrupt"


class NotATable(DeltaError):
    reason = "NotADeltaTable"


class VersionNotFound(DeltaError):
    reason = "VersionNotFound"


class VersionExists(DeltaError):
    kind = Kind.TRANSIENT
    reason = "CommitConflict"

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} of the mirror was committed by another writer in the meantime")
        self.version = version


class UnsupportedFeature(DeltaError):
    reason = "UnsupportedFeature"


class DeletionVectorCorrupt(DeltaError):
    kind = Kind.TRANSIENT
    reason = "DeletionVectorCorrupt"
