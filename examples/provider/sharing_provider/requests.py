"""What a request asks for: its capabilities header, its query body, its query string.

Parsed as the reference server parses them, which is stricter than it looks: no spaces are trimmed, and a
capability counts only in the form name=value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sharing_provider.errors import InvalidParameter, MalformedRequest


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
    include_refresh_token: bool = False
    refresh_token: str | None = None

    @property
    def latest(self) -> bool:
        return self.version is None and self.timestamp is None


def query(body: bytes, has_content_type: bool) -> Query:
    if not body and not has_content_type:
        return Query()
    try:
        asked = msgspec.json.decode(body, type=Query, strict=False)
    except msgspec.MsgspecError as error:
        raise MalformedRequest(str(error)) from None
    if asked.version is not None and asked.timestamp is not None:
        raise InvalidParameter("Please only provide one of: version,timestamp,startingVersion")
    if asked.version is not None and asked.version < 0:
        raise InvalidParameter("table version cannot be negative.")
    if not asked.latest and asked.include_refresh_token:
        raise InvalidParameter("includeRefreshToken cannot be used when querying a specific version.")
    if not asked.latest and asked.refresh_token is not None:
        raise InvalidParameter("refreshToken cannot be used when querying a specific version.")
    return asked


def number(parameters: Mapping[str, str], name: str) -> int | None:
    try:
        return int(parameters[name]) if name in parameters else None
    except ValueError:
        raise InvalidParameter("expected a number but the string didn't have the appropriate format") from None
