"""What a request asks for: its capabilities header, its query body, its query string.

Parsed as the reference server parses them, which is stricter than it looks: no spaces are trimmed, and a
capability counts only in the form name=value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from sharing_provider.errors import InvalidParameter, MalformedRequest

MAX_PAGE = 10_000
"""Files on a page, however many were asked for."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The delta-sharing-capabilities header."""

    formats: frozenset[str]
    reader_features: frozenset[str]
    end_stream_action: bool

    def response_format(self, min_reader_version: int) -> str:
        """`parquet` for a client that takes both and a table that every client can read."""
        if len(self.formats) == 1:
            return next(iter(self.formats))
        return "parquet" if min_reader_version == 1 and "parquet" in self.formats else "delta"


def capabilities(header: str | None) -> Capabilities:
    found = {}
    for item in (header or "").lower().split(";"):
        parts = item.split("=")
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) == 2:
            found[parts[0]] = parts[1]
    return Capabilities(
        formats=frozenset(found.get("responseformat", "parquet").rstrip(",").split(",")),
        reader_features=frozenset(found.get("readerfeatures", "").split(",")),
        end_stream_action=found.get("includeendstreamaction") == "true",
    )


def file_id_hash(header: str | None) -> str | None:
    if header is None:
        return None
    wanted = header.strip().lower()
    if wanted not in ("parquet", "delta"):
        raise InvalidParameter(f"Unsupported fileidhash: '{header}'. Supported: parquet, delta")
    return wanted


class Query(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of a query. To ignore an unknown field could mean to answer another question: it is refused."""

    predicate_hints: list[str] = []
    json_predicate_hints: str | None = None
    limit_hint: int | None = None
    version: int | None = None
    timestamp: str | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    include_historical_protocol: bool = False
    max_files: Annotated[int, Meta(le=2**31 - 1)] | None = None
    page_token: str | None = None
    include_refresh_token: bool = False
    refresh_token: str | None = None
    idempotency_key: str | None = None

    @property
    def latest(self) -> bool:
        return self.version is None and self.timestamp is None and self.starting_version is None

    @property
    def page_size(self) -> int | None:
        return None if self.max_files is None else min(self.max_files, MAX_PAGE)

    @property
    def checksum(self) -> str:
        return _checksum(
            self.version,
            self.timestamp,
            self.starting_version,
            self.ending_version,
            self.predicate_hints,
            self.json_predicate_hints,
            self.limit_hint,
            self.include_historical_protocol,
        )

    def without_novelties(self) -> Query:
        """As a server reads it that has not heard of pages, tokens and historical protocols."""
        return msgspec.structs.replace(
            self,
            include_historical_protocol=False,
            max_files=None,
            page_token=None,
            include_refresh_token=False,
            refresh_token=None,
        )


def query(body: bytes, has_content_type: bool) -> Query:
    if not body and not has_content_type:
        return Query()
    try:
        asked = msgspec.json.decode(body, type=Query, strict=False)
    except msgspec.MsgspecError as error:
        raise MalformedRequest(str(error)) from None
    if sum(part is not None for part in (asked.version, asked.timestamp, asked.starting_version)) > 1:
        raise InvalidParameter("Please only provide one of: version,timestamp,startingVersion")
    if asked.version is not None and asked.version < 0:
        raise InvalidParameter("table version cannot be negative.")
    if asked.starting_version is not None and asked.starting_version < 0:
        raise InvalidParameter("startingVersion cannot be negative.")
    _check_max_files(asked.max_files)
    if not asked.latest and asked.include_refresh_token:
        raise InvalidParameter("includeRefreshToken cannot be used when querying a specific version.")
    if asked.page_token is not None and asked.include_refresh_token:
        raise InvalidParameter("includeRefreshToken must be used in the first page request.")
    if not asked.latest and asked.refresh_token is not None:
        raise InvalidParameter("refreshToken cannot be used when querying a specific version.")
    if asked.page_token is not None and asked.refresh_token is not None:
        raise InvalidParameter("refreshToken must be used in the first page request.")
    return asked


class Changes(msgspec.Struct, frozen=True):
    """The query string of a request for changes."""

    starting_version: int | None = None
    starting_timestamp: str | None = None
    ending_version: int | None = None
    ending_timestamp: str | None = None
    include_historical_metadata: bool = False
    include_historical_protocol: bool = False
    max_files: int | None = None
    page_token: str | None = None

    @property
    def page_size(self) -> int | None:
        return None if self.max_files is None else min(self.max_files, MAX_PAGE)

    @property
    def checksum(self) -> str:
        return _checksum(
            self.starting_version,
            self.starting_timestamp,
            self.ending_version,
            self.ending_timestamp,
            self.include_historical_metadata,
            self.include_historical_protocol,
        )

    def without_novelties(self) -> Changes:
        return msgspec.structs.replace(self, include_historical_protocol=False, max_files=None, page_token=None)


def changes(parameters: Mapping[str, str]) -> Changes:
    for end in ("starting", "ending"):
        if f"{end}Version" in parameters and f"{end}Timestamp" in parameters:
            raise InvalidParameter(
                f"Multiple {end} arguments provided for CDF read."
                f" Please provide one of either {end}Timestamp or {end}Version."
            )
    if not parameters.keys() & {"startingVersion", "startingTimestamp"}:
        raise InvalidParameter("No startingVersion or startingTimestamp provided for CDF read.")
    return Changes(
        starting_version=_version(parameters, "startingVersion"),
        starting_timestamp=parameters.get("startingTimestamp"),
        ending_version=_version(parameters, "endingVersion"),
        ending_timestamp=parameters.get("endingTimestamp"),
        include_historical_metadata=parameters.get("includeHistoricalMetadata", "").lower() == "true",
        include_historical_protocol=parameters.get("includeHistoricalProtocol", "").lower() == "true",
        max_files=max_files(parameters),
        page_token=parameters.get("pageToken"),
    )


def max_files(parameters: Mapping[str, str]) -> int | None:
    found = number(parameters, "maxFiles")
    _check_max_files(found)
    return found


def number(parameters: Mapping[str, str], name: str) -> int | None:
    try:
        return int(parameters[name]) if name in parameters else None
    except ValueError:
        raise InvalidParameter("expected a number but the string didn't have the appropriate format") from None


def _version(parameters: Mapping[str, str], name: str) -> int | None:
    try:
        return int(parameters[name]) if name in parameters else None
    except ValueError:
        raise InvalidParameter(f"{name} is not a valid number.") from None


def _check_max_files(wanted: int | None) -> None:
    if wanted is not None and wanted <= 0:
        raise InvalidParameter("maxFiles must be positive.")


def _checksum(*parameters: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parameters)).hexdigest()
