"""Directory access: credentials with which a recipient reads the table's folder itself, log and all."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from sharing_provider import tokens
from sharing_provider.config import Config, Table
from sharing_provider.errors import InvalidParameter


class _Asked(msgspec.Struct, frozen=True):
    location: str | None = None


def for_table(table: Table, config: Config, body: bytes) -> dict[str, Any]:
    given = config.temporary_credentials
    if not table.directory_access or given is None:
        raise InvalidParameter(f"Directory access is not enabled on table {table.name}.")
    location = _asked_location(body) or table.location
    if not _is_under(location, table.location):
        raise InvalidParameter(
            "The requested location must be the same as or under this table's configured storage location."
        )
    keys = {
        "accessKeyId": given.access_key_id,
        "secretAccessKey": given.secret_access_key,
        "sessionToken": given.session_token,
    }
    expires = tokens.expiry(config.url_lifetime_seconds)
    return {"credentials": {"location": location, "awsTempCredentials": keys, "expirationTime": expires}}


def _asked_location(body: bytes) -> str | None:
    """A body that cannot be read counts as none, as with the reference server."""
    try:
        return msgspec.json.decode(body, type=_Asked).location
    except msgspec.MsgspecError:
        return None


def _is_under(location: str, root: str) -> bool:
    found, wanted = urlsplit(location), urlsplit(root)
    same_place = found.scheme in (wanted.scheme, "s3a") and found.netloc == wanted.netloc
    parts = found.path.strip("/").split("/")
    return same_place and ".." not in parts and f"{'/'.join(parts)}/".startswith(f"{wanted.path.strip('/')}/")
