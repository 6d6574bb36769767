"""Profile files: where a provider is, and how to prove who we are (Delta Sharing protocol: Profile File Format)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deltamirror.sharing.errors import ProfileInvalid


@dataclass(frozen=True, slots=True)
class Profile:
    endpoint: str
    bearer_token: str = field(repr=False)
    expires: datetime | None = None

    @classmethod
    def from_file(cls, path: Path) -> Profile:
        try:
            return cls.from_bytes(path.read_bytes())
        except OSError as error:
            raise ProfileInvalid(f"the profile {path} cannot be read: {error.strerror}") from None
        except ProfileInvalid as error:
            raise ProfileInvalid(f"{path}: {error}") from None

    @classmethod
    def from_bytes(cls, data: bytes) -> Profile:
        try:
            content = json.loads(data)
        except ValueError:
            raise ProfileInvalid("the profile is not JSON: use the file as the provider sent it") from None
        if not isinstance(content, dict):
            raise ProfileInvalid("the profile is not a JSON object: use the file as the provider sent it")
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Profile:
        version = content.get("shareCredentialsVersion")
        if version != 1:
            raise ProfileInvalid(
                f"the profile has shareCredentialsVersion {version!r}; this version of deltamirror knows 1"
            )
        endpoint = _text(content, "endpoint").rstrip("/")
        if urlsplit(endpoint).scheme not in ("http", "https"):
            raise ProfileInvalid("the field 'endpoint' of the profile is not an http or https URL")
        return cls(endpoint, _text(content, "bearerToken"), _time(content.get("expirationTime")))

    def check_expiry(self, now: datetime | None = None) -> None:
        if self.expires is not None and self.expires <= (now or datetime.now(UTC)):
            raise ProfileInvalid(
                f"the token of the profile expired at {self.expires:%Y-%m-%d %H:%M} UTC: ask the provider for a new profile"
            )


def _text(content: dict[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ProfileInvalid(f"the profile lacks the field {name!r}: use the file as the provider sent it")
    return value.strip()


def _time(value: Any) -> datetime | None:
    if value in (None, ""):
        return None
    try:
        time = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ProfileInvalid(f"the field 'expirationTime' of the profile is no time: {value!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
