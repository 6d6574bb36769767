"""The listing endpoints: shares, schemas and tables in the order of the configuration, in pages.

Names are compared without case. Items repeat the share and schema as the request spelt them, like the
reference server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, TypeVar

import msgspec

from sharing_provider import tokens
from sharing_provider.config import Config, Schema, Share, Table
from sharing_provider.errors import InvalidParameter, NotFound
from sharing_provider.tokens import ListingToken

MAX_RESULTS = 500

Named = TypeVar("Named", Share, Schema, Table)


class Item(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    schema: str | None = None
    share: str | None = None
    id: str = ""
    location: str | None = None
    access_modes: list[str] | None = None


class Page(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    items: list[Item] = []
    next_page_token: str | None = None


class Catalog:
    def __init__(self, config: Config) -> None:
        self._shares = config.shares

    def share(self, name: str) -> Share:
        return _find(self._shares, name) or _missing(f"share '{name}' not found")

    def schema(self, share: str, name: str) -> Schema:
        return _find(self.share(share).schemas, name) or _missing(f"schema '{name}' not found")

    def table(self, share: str, schema: str, name: str) -> tuple[str, str, str]:
        """Share, schema and name of a table as the configuration spells them."""
        if (in_share := _find(self._shares, share)) and (in_schema := _find(in_share.schemas, schema)):
            found = _find(in_schema.tables, name)
            if found:
                return in_share.name, in_schema.name, found.name
        return _missing(
            f"[Share/Schema/Table] '{share}/{schema}/{name}' does not exist,"
            " please contact your share provider for further information."
        )

    def shares(self, limit: int, page: str | None) -> Page:
        return _page([Item(share.name) for share in self._shares], limit, page)

    def schemas(self, share: str, limit: int, page: str | None) -> Page:
        return _page([Item(s.name, share=share) for s in self.share(share).schemas], limit, page, share)

    def tables(self, share: str, schema: str, limit: int, page: str | None) -> Page:
        items = [_item(t, schema, share) for t in self.schema(share, schema).tables]
        return _page(items, limit, page, share, schema)

    def all_tables(self, share: str, limit: int, page: str | None) -> Page:
        schemas = self.share(share).schemas
        return _page([_item(t, s.name, share) for s in schemas for t in s.tables], limit, page, share)


def _item(table: Table, schema: str, share: str) -> Item:
    if table.directory_access:
        return Item(table.name, schema, share, table.id, table.location, ["url", "dir"])
    return Item(table.name, schema, share, table.id)


def _find(candidates: Sequence[Named], name: str) -> Named | None:
    return next((found for found in candidates if found.name.casefold() == name.casefold()), None)


def _missing(sentence: str) -> NoReturn:
    raise NotFound(sentence)


def _page(items: list[Item], limit: int, page: str | None, share: str | None = None, schema: str | None = None) -> Page:
    if not 0 <= limit <= MAX_RESULTS:
        raise InvalidParameter(
            f"Acceptable values of 'maxResults' are 0 to {MAX_RESULTS}, inclusive. (Default: {MAX_RESULTS})"
        )
    start = 0 if page is None else _start(page, len(items), share, schema)
    end = start + limit
    following = tokens.encode(ListingToken(end, share, schema)) if end < len(items) else None
    return Page(items[start:end], following)


def _start(page: str, size: int, share: str | None, schema: str | None) -> int:
    try:
        token = tokens.decode(page, ListingToken)
    except ValueError:
        token = None
    if token is None or (token.share, token.schema) != (share, schema) or not 0 <= token.start <= size:
        raise InvalidParameter("invalid 'nextPageToken'")
    return token.start
