"""What can be asked of a table's files, as the request bodies and parameters of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A snapshot (the newest, or at a version or time), or the file changes of a range of versions."""

    version: int | None = None
    timestamp: datetime | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    predicate_hints: Sequence[str] = ()
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    max_files: int | None = None
    """Ask for pages of at most this many files."""
    refresh_token: str | None = None
    include_refresh_token: bool = False
    include_historical_protocol: bool = False

    @property
    def is_range(self) -> bool:
        return self.starting_version is not None

    @property
    def is_whole(self) -> bool:
        """Whether all files are asked for, and not those alone that a hint is about."""
        return not self.is_range and not (self.predicate_hints or self.json_predicate_hints or self.limit_hint)

    def body(self) -> dict[str, Any]:
        fields = {
            "version": self.version,
            "timestamp": format_time(self.timestamp),
            "startingVersion": self.starting_version,
            "endingVersion": self.ending_version,
            "predicateHints": list(self.predicate_hints) or None,
            "jsonPredicateHints": self.json_predicate_hints,
            "limitHint": self.limit_hint,
            "maxFiles": self.max_files,
            "refreshToken": self.refresh_token,
            "includeRefreshToken": self.include_refresh_token or None,
            "includeHistoricalProtocol": self.include_historical_protocol or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The change data feed of a range of versions or times, both ends included."""

    starting_version: int | None = None
    ending_version: int | None = None
    starting_timestamp: datetime | None = None
    ending_timestamp: datetime | None = None
    include_historical_metadata: bool = False
    max_files: int | None = None

    version: ClassVar[None] = None
    is_range: ClassVar[bool] = True
    is_whole: ClassVar[bool] = False

    def params(self) -> dict[str, Any]:
        fields = {
            "startingVersion": self.starting_version,
            "endingVersion": self.ending_version,
            "startingTimestamp": format_time(self.starting_timestamp),
            "endingTimestamp": format_time(self.ending_timestamp),
            "includeHistoricalMetadata": "true" if self.include_historical_metadata else None,
            "maxFiles": self.max_files,
        }
        return {name: value for name, value in fields.items() if value is not None}


def format_time(time: datetime | None) -> str | None:
    """Delta Sharing protocol: Timestamp Format."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
