"""Opaque tokens that a client hands back: URL-safe Base64 of JSON. They carry no secret and grant nothing."""

from __future__ import annotations

import base64
import binascii
import time
from typing import TypeVar

import msgspec

from sharing_provider.errors import InvalidParameter

REFRESH_TOKEN_LIFETIME = 3600
PAGE_TOKEN_LIFETIME = 3 * 86400


class ListingToken(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page of shares, schemas or tables starts, and of which listing."""

    start: int
    share: str | None
    schema: str | None


class RefreshToken(msgspec.Struct, frozen=True, array_like=True):
    table_id: str
    version: int
    expires: int
    """Milliseconds since the epoch."""


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page of files starts. What was the latest version at the first page stays it for all pages."""

    table_id: str
    checksum: str
    """Of the parameters of the query, which may not change from page to page."""
    latest: int
    """The version of a snapshot, or the last one of a range."""
    version: int
    """The commit of a range in which the page starts."""
    index: int
    """The place in the snapshot or in that commit."""
    expires: int


Token = TypeVar("Token", ListingToken, RefreshToken, PageToken)


def encode(token: ListingToken | RefreshToken | PageToken) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def decode(text: str, kind: type[Token]) -> Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=kind)
    except (binascii.Error, UnicodeError, msgspec.MsgspecError) as error:
        raise ValueError("this is no token of ours") from error


def refresh_token(table_id: str, version: int) -> str:
    return encode(RefreshToken(table_id, version, expiry(REFRESH_TOKEN_LIFETIME)))


def opened_refresh_token(text: str, table_id: str) -> RefreshToken:
    try:
        token = decode(text, RefreshToken)
    except ValueError:
        raise InvalidParameter(f"Error decoding refresh token: {text}.") from None
    _check(token, table_id, "refresh")
    return token


def opened_page_token(text: str, table_id: str, checksum: str) -> PageToken:
    try:
        token = decode(text, PageToken)
    except ValueError:
        raise InvalidParameter(f"Error decoding the page token: {text}.") from None
    _check(token, table_id, "page")
    if token.checksum != checksum:
        raise InvalidParameter(
            "Query parameter mismatch detected for the next page query. The query parameter\n"
            "cannot change when querying the next page results."
        )
    return token


def expiry(lifetime: float) -> int:
    return int((time.time() + lifetime) * 1000)


def _check(token: RefreshToken | PageToken, table_id: str, kind: str) -> None:
    if token.expires < time.time() * 1000:
        raise InvalidParameter(f"The {kind} token has expired. Please restart the query.")
    if token.table_id != table_id:
        raise InvalidParameter(f"The table specified in the {kind} token does not match the table being queried.")
