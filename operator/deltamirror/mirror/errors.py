"""What the engine finds when it puts source, log and store together.

MirrorError
├── NotOurs              the destination holds a table that is no mirror, or somebody else's mirror   stalling
├── MirrorModified       somebody else committed to the mirror                                        stalling
├── MirrorMissing        the mirror was there, and is gone                                            stalling
├── SourceRecreated      the source is not the table that was mirrored before                         stalling
├── SourceContradicts    the source says two things that cannot both be true                          stalling
├── FilterInvalid        the partition filter does not fit the table                                  stalling
├── TooMuch              a sync would copy more than the spec allows                                  stalling
├── CommitsUnsafe        the store cannot write conditionally                                         stalling
├── ModeUnsupported      what the spec asks for is not possible with this source                      stalling
├── ListingDoubtful      a list that would delete much, and that a second one does not confirm        transient
├── FileUnavailable      a file that the source lists and its storage does not give                   transient
├── FileCorrupt          bytes that are not what the source said they would be                        transient
└── TooSlow              a sync that took longer than its timeout                                     transient
"""

from __future__ import annotations

from deltamirror.errors import Fault, Kind


class MirrorError(Fault):
    reason = "MirrorError"


class NotOurs(MirrorError):
    reason = "DestinationNotOurs"


class MirrorModified(MirrorError):
    reason = "MirrorModified"


class MirrorMissing(MirrorError):
    reason = "MirrorMissing"


class SourceRecreated(MirrorError):
    reason = "SourceRecreated"


class SourceContradicts(MirrorError):
    reason = "SourceContradicts"


class FilterInvalid(MirrorError):
    reason = "FilterInvalid"


class TooMuch(MirrorError):
    reason = "TooManyBytes"


class CommitsUnsafe(MirrorError):
    reason = "CommitsUnsafe"


class ModeUnsupported(MirrorError):
    reason = "ModeUnsupported"


class ListingDoubtful(MirrorError):
    kind = Kind.TRANSIENT
    reason = "ListingDoubtful"


class FileUnavailable(MirrorError):
    kind = Kind.TRANSIENT
    reason = "FileUnavailable"


class FileCorrupt(MirrorError):
    kind = Kind.TRANSIENT
    reason = "FileCorrupt"


class TooSlow(MirrorError):
    kind = Kind.TRANSIENT
    reason = "Timeout"
