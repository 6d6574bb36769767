"""A table as Delta Standalone sees it, the older of the two libraries inside the reference server.

Everything but plain snapshots goes through it there: ranges, changes, pages. It reads no table that asks for more
than reader version 1, knows no V2 checkpoints, and words its refusals in its own way. The hosted flavour has the
same requests without the limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from deltamirror.delta.actions import Protocol
from deltamirror.delta.log import Listing
from deltamirror.delta.snapshot import Snapshot
from deltamirror.store import Store
from sharing_provider import commits
from sharing_provider.commits import EPOCH, MILLISECOND, Commit
from sharing_provider.errors import InvalidParameter, Unsupported

_V2_CHECKPOINT = re.compile(r".*\.checkpoint\.[0-9a-f-]{36}\.(json|parquet)")


@dataclass(frozen=True, slots=True)
class History:
    store: Store
    listing: Listing
    load: Callable[[Listing, int], Snapshot]
    limited: bool
    """To what Delta Standalone reads."""

    @property
    def latest(self) -> int:
        return self.listing.latest

    def check(self) -> None:
        """Asked before anything else, of the newest version: an old one that could be read does not help."""
        if not self.limited:
            return
        newest = self.listing.checkpoints.get(max(self.listing.checkpoints, default=-1), [])
        if any(_V2_CHECKPOINT.fullmatch(path) for path in newest):
            raise NotImplementedError("Delta Standalone does not find the parts of a V2 checkpoint")
        self.check_protocol(self.load(self.listing, self.latest).protocol)

    def check_protocol(self, protocol: Protocol) -> None:
        if self.limited and protocol.min_reader_version > 1:
            raise Unsupported(
                f"\nDelta protocol version ({protocol.min_reader_version},{protocol.min_writer_version}) is too new for"
                " this version of Delta\nStandalone Reader/Writer (1,2). Please upgrade to a newer release.\n"
            )

    def snapshot(self, version: int) -> Snapshot:
        earliest = 0 if 0 in self.listing.commits else min(self.listing.checkpoints, default=0)
        if not earliest <= version <= self.latest:
            raise InvalidParameter(
                f"Cannot time travel Delta table to version {version}. Available versions: [{earliest}, {self.latest}]."
            )
        snapshot = self.load(self.listing, version)
        self.check_protocol(snapshot.protocol)
        return snapshot

    def commits(self, first: int, last: int) -> Iterator[Commit]:
        return commits.read(self.store, self.listing, range(first, last + 1))

    def has_all(self, first: int, last: int) -> bool:
        return all(version in self.listing.commits for version in range(first, last + 1))

    def time_of(self, version: int) -> int:
        return commits.commit_times(self.listing)[version]

    def version_at(self, at: int) -> int:
        """The version of a moment, which may be neither before the first commit nor after the last."""
        times = sorted((time, version) for version, time in commits.commit_times(self.listing).items())
        (first, _), (last, _) = times[0], times[-1]
        if at < first:
            raise InvalidParameter(
                f"The provided timestamp ({_sql(at)}) is before the earliest version available to this\n"
                f"table ({_sql(first)}). Please use a timestamp greater than or equal to {_sql(first)}.\n       "
            )
        if at > last:
            raise InvalidParameter(
                f"The provided timestamp ({_sql(at)}) is after the latest version available to this\n"
                f"table ({_sql(last)}). Please use a timestamp less than or equal to {_sql(last)}.\n       "
            )
        return max(version for time, version in times if time <= at)

    def version_from(self, at: int) -> int:
        """The first version at a moment or after it."""
        version = self.version_at(at)
        return version if self.time_of(version) >= at else version + 1


def _sql(time: int) -> str:
    """As java.sql.Timestamp prints it."""
    moment: datetime = EPOCH + time * MILLISECOND
    fraction = f"{time % 1000:03d}".rstrip("0") or "0"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}"
