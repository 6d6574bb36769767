"""Shares, schemas and tables, as the listing endpoints name them."""

from __future__ import annotations

import msgspec


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
