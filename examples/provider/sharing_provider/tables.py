"""One shared table: its log on storage, the version or time that a request names, what may be shared of it.

Every request lists the log anew; what it says is replayed only where it changed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from deltamirror.delta import log
from deltamirror.delta.actions import Add, Remove
from deltamirror.delta.errors import NotATable
from deltamirror.delta.log import Listing
from deltamirror.delta.snapshot import Snapshot
from deltamirror.store import ObjectNotFound, Store, StoreDenied, StoreNotFound, open_store
from sharing_provider.commits import EPOCH, MILLISECOND, FileAction, commit_times
from sharing_provider.config import Config, Flavour, Table
from sharing_provider.errors import (
    InvalidParameter,
    MalformedRequest,
    TableUnreadable,
    UndeclaredFeatures,
    Unsupported,
)
from sharing_provider.history import History
from sharing_provider.replays import Replays

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_NEEDS = {
    # A table property: the value that switches it off, and the feature that a client must have declared.
    "delta.columnMapping.mode": ("none", "columnmapping"),
    "delta.enableDeletionVectors": ("false", "deletionvectors"),
}
_ABOUT_THE_LOG = {"v2Checkpoint", "vacuumProtocolCheck"}
"""Reader features that nobody meets who reads through a share."""


class SharedTable:
    def __init__(self, table: Table, flavour: Flavour, config: Config, replays: Replays) -> None:
        self.config = table
        self.flavour = flavour
        self._s3 = config.s3
        self._reader_features = config.reader_features
        self._replays = replays

    @property
    def folder(self) -> Path | None:
        """Where a table on the local disk is."""
        parts = urlsplit(self.config.location)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    def file(self, path: str) -> Path | None:
        """A file of a table on the local disk, which may not lie outside of it."""
        if self.folder is None:
            return None
        file = Path(os.path.normpath(self.folder / path))
        return file if file.is_relative_to(self.folder) else None

    def snapshot(self, version: int | None = None, timestamp: str | None = None) -> Snapshot:
        with self._refusals():
            listing = self._listing()
            if self.flavour is Flavour.LEGACY:
                self._history(listing)  # it has no other way to open a table
            if timestamp is not None:
                version = self._version_at(listing, milliseconds(timestamp))
            return self._load(listing, version)

    def history(self) -> History:
        """What ranges, changes and pages are made from, if this server can make them of this table."""
        with self._refusals():
            return self._history(self._listing())

    def version_after(self, timestamp: str) -> int:
        """The first version after a time: like the reference server, not the one at exactly that time."""
        with self._refusals():
            listing = self._listing()
            at = milliseconds(timestamp)
            if at < min(commit_times(listing).values()):
                return 0
            return self._load(listing, self._version_at(listing, at) + 1).version

    @cached_property
    def _store(self) -> Store:
        return open_store(self.config.location, environment=self._s3.environment, s3=self._s3.options)

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (NotATable, ObjectNotFound, StoreNotFound):
            raise TableUnreadable("table files missing") from None
        except StoreDenied:
            raise TableUnreadable("permission denied") from None

    def _listing(self) -> Listing:
        if self.folder is not None and not self.folder.is_dir():
            raise NotATable(f"there is no folder {self.folder}")  # opening a store would make it
        listing = log.list_log(self._store)
        if not listing.commits and not listing.checkpoints:
            raise NotATable(f"there is no Delta log in {self.config.location}")
        return listing

    def _load(self, listing: Listing, version: int | None) -> Snapshot:
        cannot_load = f"{self.config.location}: Cannot load table version {version} as"
        earliest = 0 if 0 in listing.commits else min(listing.checkpoints, default=0)
        if version is not None and version > listing.latest:
            raise MalformedRequest(
                f"{cannot_load} it does not exist. The latest available version is {listing.latest}."
            )
        if version is not None and version < earliest:
            raise MalformedRequest(
                f"{cannot_load} the transaction log has been truncated due to manual deletion or the"
                f" log/checkpoint retention policy. The earliest available version is {earliest}."
            )
        snapshot = self._replay(listing, version)
        self._check_protocol(snapshot)
        return snapshot

    def _history(self, listing: Listing) -> History:
        history = History(self._store, listing, self._replay, limited=self.flavour is not Flavour.HOSTED)
        history.check()
        return history

    def _replay(self, listing: Listing, version: int | None) -> Snapshot:
        return self._replays.load(self.config.location, self._store, listing, version)

    def _check_protocol(self, snapshot: Snapshot) -> None:
        reader = snapshot.protocol.min_reader_version
        if reader > 3:
            raise MalformedRequest(
                f"Unsupported Delta protocol reader version: table `{self.config.location}` requires reader version"
                f" {reader} which is unsupported by this version of Delta Kernel."
            )
        for feature in snapshot.protocol.reader_features or []:
            if self.flavour is Flavour.HOSTED or feature in self._reader_features:
                continue
            if feature.startswith("variant"):
                # The reference server fails at the schema before it looks at the features.
                raise NotImplementedError(f"{self.config.location} has columns of type variant")
            raise MalformedRequest(
                f"Unsupported Delta reader feature: table `{self.config.location}` requires reader table feature"
                f' "{feature}" which is unsupported by this version of Delta Kernel.'
            )

    def _version_at(self, listing: Listing, at: int) -> int:
        times = sorted((time, version) for version, time in commit_times(listing).items())
        (first, first_version), (last, last_version) = times[0], times[-1]
        provided = f"{self.config.location}: The provided timestamp {_both_forms(at)} is"
        if at < first:
            raise MalformedRequest(
                f"{provided} before the earliest available version {first_version}."
                f" Please use a timestamp greater than or equal to {_both_forms(first)}."
            )
        if at > last:
            raise MalformedRequest(
                f"{provided} after the latest available version {last_version}."
                f" Please use a timestamp less than or equal to {_both_forms(last)}."
            )
        return max(version for time, version in times if time <= at)


def check_client(table: SharedTable, snapshot: Snapshot, client_features: frozenset[str]) -> None:
    """Whether the client has declared what it must be able to do to read this table."""
    configuration = snapshot.metadata.configuration
    active = {name: need for name, (off, need) in _NEEDS.items() if configuration.get(name, off) != off}
    if table.flavour is Flavour.HOSTED:
        listed = set(snapshot.protocol.reader_features or []) - _ABOUT_THE_LOG - {"columnMapping", "deletionVectors"}
        needed = active | {feature: feature.lower() for feature in listed}
        if undeclared := sorted(name for name, need in needed.items() if need not in client_features):
            raise UndeclaredFeatures(
                f"Table features {', '.join(undeclared)} are found in table version: {snapshot.version}."
            )
    elif not client_features.issuperset(active.values()):
        raise Unsupported("Unsupported Delta Table Properties")


def check_files(table: SharedTable, files: Iterable[FileAction], client_features: frozenset[str]) -> None:
    """Asked before the first line of an answer: later is too late for a status."""
    for file in files:
        if _ABSOLUTE.match(file.path):
            raise NotImplementedError("a table with absolute paths cannot be shared")
        vector = file.deletion_vector if isinstance(file, Add | Remove) else None
        if vector is None:
            continue
        if "deletionvectors" not in client_features:
            raise Unsupported("Deletion Vector property disabled")
        if vector.storage_type == "p":
            raise Unsupported("Table contains absolute paths and cannot be shared through delta sharing")
        if vector.storage_type == "i" and table.flavour is not Flavour.HOSTED:
            raise NotImplementedError("an inline deletion vector has no file to sign")


def milliseconds(timestamp: str, name: str = "startingTimestamp") -> int:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidParameter(f"Invalid {name}: Text '{timestamp}' could not be parsed at index 0.")
    return (moment - EPOCH) // MILLISECOND


def _both_forms(time: int) -> str:
    digits = "milliseconds" if time % 1000 else "seconds"
    text = (EPOCH + time * MILLISECOND).isoformat(timespec=digits).replace("+00:00", "Z")
    return f"{time} ms ({text})"
