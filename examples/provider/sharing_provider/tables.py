"""One shared table: its log on storage, the version or time that a request names, what may be shared of it.

Every request reads the log anew: a cache would have to notice a table that was dropped and made again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from deltamirror.delta import log
from deltamirror.delta.actions import Add
from deltamirror.delta.errors import NotATable
from deltamirror.delta.log import Listing
from deltamirror.delta.snapshot import Snapshot
from deltamirror.store import ObjectNotFound, Store, StoreDenied, StoreNotFound, open_store
from sharing_provider.config import Config, Table
from sharing_provider.errors import InvalidParameter, MalformedRequest, TableUnreadable, Unsupported

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_NEEDS = {
    # A table property: the value that switches it off, and the feature that a client must have declared.
    "delta.columnMapping.mode": ("none", "columnmapping"),
    "delta.enableDeletionVectors": ("false", "deletionvectors"),
}


class SharedTable:
    def __init__(self, table: Table, config: Config) -> None:
        self.config = table
        self._s3 = config.s3
        self._reader_features = config.reader_features

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
            if timestamp is not None:
                version = self._version_at(listing, milliseconds(timestamp))
            return self._load(listing, version)

    def version_after(self, timestamp: str) -> int:
        """The first version after a time: like the reference server, not the one at exactly that time."""
        with self._refusals():
            listing = self._listing()
            first, _ = self._commit_times(listing)[0]
            at = milliseconds(timestamp)
            if at < first:
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
        snapshot = log.load(self._store, version, listing)
        self._check_protocol(snapshot)
        return snapshot

    def _check_protocol(self, snapshot: Snapshot) -> None:
        reader = snapshot.protocol.min_reader_version
        if reader > 3:
            raise MalformedRequest(
                f"Unsupported Delta protocol reader version: table `{self.config.location}` requires reader version"
                f" {reader} which is unsupported by this version of Delta Kernel."
            )
        for feature in snapshot.protocol.reader_features or []:
            if feature in self._reader_features:
                continue
            if feature.startswith("variant"):
                # The reference server fails at the schema before it looks at the features.
                raise NotImplementedError(f"{self.config.location} has columns of type variant")
            raise MalformedRequest(
                f"Unsupported Delta reader feature: table `{self.config.location}` requires reader table feature"
                f' "{feature}" which is unsupported by this version of Delta Kernel.'
            )

    def _commit_times(self, listing: Listing) -> list[tuple[int, int]]:
        """(milliseconds, version) of each commit, made to increase as Delta readers do."""
        times: list[tuple[int, int]] = []
        for version, entry in sorted(listing.commits.items()):
            modified = (entry.modified - _EPOCH) // _MILLISECOND
            times.append((max(modified, times[-1][0] + 1) if times else modified, version))
        return times

    def _version_at(self, listing: Listing, at: int) -> int:
        times = self._commit_times(listing)
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


def check_properties(snapshot: Snapshot, client_features: frozenset[str]) -> None:
    for name, (off, feature) in _NEEDS.items():
        if snapshot.metadata.configuration.get(name, off) != off and feature not in client_features:
            raise Unsupported("Unsupported Delta Table Properties")


def check_files(files: Iterable[Add], client_features: frozenset[str]) -> None:
    """Asked before the first line of an answer: later is too late for a status."""
    for add in files:
        if _ABSOLUTE.match(add.path):
            raise NotImplementedError("a table with absolute paths cannot be shared")
        if add.deletion_vector is None:
            continue
        if "deletionvectors" not in client_features:
            raise Unsupported("Deletion Vector property disabled")
        if add.deletion_vector.storage_type == "p":
            raise Unsupported("Table contains absolute paths and cannot be shared through delta sharing")
        if add.deletion_vector.storage_type == "i":
            raise NotImplementedError("an inline deletion vector has no file to sign")


def milliseconds(timestamp: str) -> int:
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidParameter(f"Invalid startingTimestamp: Text '{timestamp}' could not be parsed at index 0.")
    return (moment - _EPOCH) // _MILLISECOND


def _both_forms(time: int) -> str:
    digits = "milliseconds" if time % 1000 else "seconds"
    text = (_EPOCH + time * _MILLISECOND).isoformat(timespec=digits).replace("+00:00", "Z")
    return f"{time} ms ({text})"
