"""Opaque tokens that a client hands back: URL-safe Base64 of JSON. They carry no secret and grant nothing."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page of a listing starts, and of which listing."""

    start: int
    share: str | None
    schema: str | None


class RefreshToken(msgspec.Struct, frozen=True, array_like=True):
    table_id: str
    version: int
    expires: int
    """Milliseconds since the epoch."""


Token = TypeVar("Token", PageToken, RefreshToken)


def encode(token: PageToken | RefreshToken) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def decode(text: str, kind: type[Token]) -> Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=kind)
    except (binascii.Error, UnicodeError, msgspec.MsgspecError) as error:
        raise ValueError("this is no token of ours") from error
