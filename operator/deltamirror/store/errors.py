"""What can be wrong with the recipient's object store.

StoreError
├── StoreMisconfigured   a URI or an option that cannot work
├── StoreNotFound        the bucket or container does not exist
├── StoreDenied          the credentials are missing, wrong or not allowed to do this
├── StoreUnavailable     it does not answer, or answers with an error of its own
└── ObjectNotFound       there is no such object
"""

from __future__ import annotations

from deltamirror.errors import Fault, Kind


class StoreError(Fault):
    reason = "DestinationError"


class StoreMisconfigured(StoreError):
    reason = "DestinationInvalid"


class StoreNotFound(StoreError):
    reason = "DestinationNotFound"


class StoreDenied(StoreError):
    reason = "DestinationDenied"


class StoreUnavailable(StoreError):
    kind = Kind.TRANSIENT
    reason = "DestinationUnavailable"


class ObjectNotFound(StoreError):
    kind = Kind.TRANSIENT
    reason = "ObjectNotFound"
