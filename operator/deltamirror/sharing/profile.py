"""Profile files: where a provider is, and how to prove who we are (Delta Sharing protocol: Profile File Format).

Version 1 is in the protocol; version 2 is what providers send for OAuth, and is known from the official clients.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import httpx

from deltamirror.sharing.errors import ProfileInvalid


@dataclass(frozen=True, slots=True)
class BearerToken:
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Basic:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """OAuth with a client secret (RFC 6749, section 4.4)."""

    token_endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class PrivateKeyJwt:
    """OAuth with a token that we sign ourselves (RFC 7523)."""

    token_endpoint: str
    issuer: str
    client_id: str
    audience: str | None
    private_key: str = field(repr=False)
    key_id: str | None
    algorithm: str
    scope: str | None = None


Credential = BearerToken | Basic | ClientCredentials | PrivateKeyJwt


@dataclass(frozen=True, slots=True)
class Profile:
    endpoint: str
    credential: Credential
    expires: datetime | None = None

    @classmethod
    def from_file(cls, path: Path) -> Profile:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ProfileInvalid(f"the profile {path} cannot be read: {error.strerror}") from None
        try:
            return cls.from_bytes(data, _Folder(path.parent))
        except ProfileInvalid as error:
            raise ProfileInvalid(f"{path}: {error}") from None

    @classmethod
    def from_bytes(cls, data: bytes, files: Mapping[str, bytes] | None = None) -> Profile:
        """A profile from a file or a Secret; `files` are its neighbours, where a private key may lie."""
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            raise ProfileInvalid("the profile is not JSON: use the file as the provider sent it") from None
        if not isinstance(content, dict):
            raise ProfileInvalid("the profile is not a JSON object: use the file as the provider sent it")
        return cls.from_dict(content, files)

    @classmethod
    def from_dict(cls, content: dict[str, Any], files: Mapping[str, bytes] | None = None) -> Profile:
        version = content.get("shareCredentialsVersion")
        kind = content.get("type")
        if str(version) == "1" and kind in (None, "bearer_token"):
            kind = "bearer_token"
        elif str(version) != "2":
            raise ProfileInvalid(
                f"the field 'shareCredentialsVersion' of the profile is {version!r}; this version of deltamirror knows 1 and 2:"
                " use the file as the provider sent it, or a newer deltamirror"
            )
        endpoint = _url(content, "endpoint")
        https = endpoint.startswith("https:")
        credential: Credential
        match kind:
            case "bearer_token":
                credential = BearerToken(_token(content, "bearerToken"))
            case "basic":
                credential = Basic(_text(content, "username"), _text(content, "password"))
            case "oauth_client_credentials":
                credential = ClientCredentials(
                    _url(content, "tokenEndpoint", https=https),
                    _text(content, "clientId"),
                    _text(content, "clientSecret"),
                    _optional(content, "scope"),
                )
            case "oauth_jwt_bearer_private_key_jwt":
                credential = _private_key_jwt(content, {} if files is None else files, https)
            case _:
                raise ProfileInvalid(
                    f"the field 'type' of the profile is {kind!r}; this version of deltamirror knows bearer_token, basic,"
                    " oauth_client_credentials and oauth_jwt_bearer_private_key_jwt"
                )
        return cls(endpoint, credential, _time(content.get("expirationTime")))

    def check_expiry(self, now: datetime | None = None) -> None:
        """Says that a token has expired before it is tried."""
        if self.expires is not None and self.expires <= (now or datetime.now(UTC)):
            raise ProfileInvalid(
                f"the token of the profile expired at {self.expires:%Y-%m-%d %H:%M} UTC: ask the provider for a new profile"
            )


class _Folder(Mapping[str, bytes]):
    """The files of a folder by name, read when asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except (OSError, ValueError):
            raise KeyError(name) from None

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def _private_key_jwt(content: dict[str, Any], files: Mapping[str, bytes], https: bool) -> PrivateKeyJwt:
    auth = content.get("auth")
    if not isinstance(auth, dict):
        raise ProfileInvalid("the profile lacks the field 'auth': use the file as the provider sent it")
    key = auth.get("privateKey")
    if not isinstance(key, dict):
        raise ProfileInvalid("the profile lacks the field 'auth.privateKey': use the file as the provider sent it")
    return PrivateKeyJwt(
        token_endpoint=_url(auth, "tokenEndpoint", "auth.", https=https),
        issuer=_text(auth, "issuer", "auth."),
        client_id=_text(auth, "clientId", "auth."),
        audience=_optional(auth, "audience", "auth."),
        private_key=_key_file(_text(key, "privateKeyFile", "auth.privateKey."), files),
        key_id=_optional(key, "keyId", "auth.privateKey."),
        algorithm=_optional(key, "algorithm", "auth.privateKey.") or "RS256",
        scope=_optional(auth, "scope", "auth."),
    )


def _key_file(name: str, files: Mapping[str, bytes]) -> str:
    """The profile may name it with a folder; beside a Secret's profile there are none."""
    for candidate in (name, PurePosixPath(name).name):
        try:
            return files[candidate].decode()
        except (KeyError, UnicodeDecodeError):
            pass
    raise ProfileInvalid(
        f"the private key {name!r} of the profile is missing: put it beside the profile, as a file or as a key of the same Secret"
    )


def sendable(token: object) -> bool:
    """Whether a text can be (part of) a header: an HTTP client would quote one that cannot, in its error."""
    return isinstance(token, str) and re.fullmatch(r"[!-~]+", token) is not None


def _token(content: dict[str, Any], name: str) -> str:
    token = _text(content, name)
    if not sendable(token):
        raise ProfileInvalid(
            f"the field {name!r} of the profile holds a character that no token has: use the file as the provider sent it"
        )
    return token


def _text(content: dict[str, Any], name: str, within: str = "") -> str:
    value = _optional(content, name, within)
    if value is None:
        raise ProfileInvalid(f"the profile lacks the field {within + name!r}: use the file as the provider sent it")
    return value


def _optional(content: dict[str, Any], name: str, within: str = "") -> str | None:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise ProfileInvalid(
            f"the field {within + name!r} of the profile is not a text: use the file as the provider sent it"
        )
    return (value or "").strip() or None


def _url(content: dict[str, Any], name: str, within: str = "", *, https: bool = False) -> str:
    """`https`: nothing else will do, because the provider itself is asked over https."""
    text = _text(content, name, within).rstrip("/")
    try:
        url = httpx.URL(text)
        _ = urlsplit(text).port  # stricter about some mistakes
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    plain = not (url.userinfo or url.query or url.fragment)
    if url.scheme not in ("http", "https") or not url.host or not plain:
        raise ProfileInvalid(
            f"the field {within + name!r} of the profile is not an http or https URL with nothing but a path"
        )
    if https and url.scheme != "https":
        raise ProfileInvalid(f"the field {within + name!r} of the profile is http: a secret would be sent in the clear")
    return text


def _time(value: Any) -> datetime | None:
    if value in (None, ""):
        return None
    try:
        time = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ProfileInvalid(f"the field 'expirationTime' of the profile is no time: {value!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
