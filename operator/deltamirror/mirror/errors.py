"""What the engine finds when it puts source, log and store together.

MirrorError
├── NotOurs              the destination holds a table that is no mirror, or somebody else's mirror   stalling
├── MirrorModified       somebody else committed to the mirror                                        stalling
├── SourceRecreated      the source is not the table that was mirrored before                         stalling
├── SourceContradicts    the source says two things that cannot both be true                          stalling
├── ModeUnsupported      what the spec asks for is not possible with this source                      stalling
├── FileUnavailable      a signed URL does not give its file: expired, vacuumed, wrong size           transient
└── FileCorrupt          bytes that are not what the source said they would be                        transient
"""

from __future__ import annotations

from deltamirror.errors import Fault, Kind


class MirrorError(Fault):
    reason = "MirrorError"


class NotOurs(MirrorError):
    reason = "DestinationNotOurs"


class MirrorModified(MirrorError):
    reason = "MirrorModified"


class SourceRecreated(MirrorError):
    reason = "SourceRecreated"


class SourceContradicts(MirrorError):
    reason = "SourceContradicts"


class ModeUnsupported(MirrorError):
    reason = "ModeUnsupported"


class FileUnavailable(MirrorError):
    kind = Kind.TRANSIENT
    reason = "FileUnavailable"


class FileCorrupt(MirrorError):
    kind = Kind.TRANSIENT
    reason = "FileCorrupt"
