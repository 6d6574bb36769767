"""Shares, schemas and tables, as the listing endpoints name them."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Share(msgspec.Struct, frozen=True):
    name: str
    id: str | None = None


class Schema(msgspec.Struct, frozen=True):
    name: str
    share: str


class Table(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    schema: str
    share: str
    share_id: str | None = None
    id: str | None = None
    type: str | None = None
    """Some servers say whether it is a table or a view."""


class ShareAnswer(msgspec.Struct, frozen=True):
    share: Share


class Page(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    """`items` may be missing, and the token of the next page "" or absent."""

    items: list[T] | None = None
    next_page_token: str | None = None
