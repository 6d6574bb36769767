"""The root of every error that this package raises on purpose.

    Fault
    ├── sharing.errors.SharingError    the provider, its protocol, the profile
    ├── delta.errors.DeltaError        the transaction log
    ├── store.errors.StoreError        the recipient's object store
    ├── mirror.errors.MirrorError      what the engine finds when it puts them together
    └── api.errors.ManifestError       the resource itself

The message of a fault is a sentence for people: what happened, to which table, what can be done.
Its kind tells the machine what to do, and its reason is the CamelCase word that conditions, events
and metrics share. No fault carries a token or a signed URL in its text.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Kind(enum.StrEnum):
    """What a fault asks for."""

    STALLING = "stalling"
    """A person has to change something; looked at again once per interval."""
    WAITING = "waiting"
    """Something else has to happen first: a rate limit, a Secret, a slot."""
    TRANSIENT = "transient"
    """Trying again with backoff is likely to heal it."""


class Fault(Exception):
    kind: ClassVar[Kind] = Kind.STALLING
    reason: ClassVar[str] = "Failed"
