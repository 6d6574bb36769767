"""Temporary credentials for the directory of a table (Delta Sharing protocol: Generate Temporary Table Credential)."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


class AwsCredentials(msgspec.Struct, frozen=True, rename="camel", repr_omit_defaults=True):
    access_key_id: str
    secret_access_key: str
    session_token: str

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key_id!r})"


class AzureUserDelegationSas(msgspec.Struct, frozen=True, rename="camel"):
    sas_token: str

    def __repr__(self) -> str:
        return "AzureUserDelegationSas()"


class GcpOauthToken(msgspec.Struct, frozen=True, rename="camel"):
    oauth_token: str

    def __repr__(self) -> str:
        return "GcpOauthToken()"


CloudCredentials = AwsCredentials | AzureUserDelegationSas | GcpOauthToken


@dataclass(frozen=True, slots=True)
class TemporaryCredentials:
    location: str
    expires_at: int
    """Milliseconds since the epoch, by the server's clock."""
    cloud: CloudCredentials = field(repr=False)
