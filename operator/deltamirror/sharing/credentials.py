"""Temporary credentials for the directory of a table (Delta Sharing protocol: Generate Temporary Table Credential)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta


class AwsCredentials(msgspec.Struct, frozen=True, rename="camel"):
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


class Granted(msgspec.Struct, frozen=True, rename="camel"):
    """What the server sends: one of the three clouds."""

    location: str
    expiration_time: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    aws_temp_credentials: AwsCredentials | None = None
    azure_user_delegation_sas: AzureUserDelegationSas | None = None
    gcp_oauth_token: GcpOauthToken | None = None

    @property
    def cloud(self) -> CloudCredentials | None:
        return self.aws_temp_credentials or self.azure_user_delegation_sas or self.gcp_oauth_token


class GrantedAnswer(msgspec.Struct, frozen=True):
    credentials: Granted


@dataclass(frozen=True, slots=True)
class TemporaryCredentials:
    location: str
    expires_at: int
    """Milliseconds since the epoch, by the server's clock."""
    cloud: CloudCredentials = field(repr=False)
    until: float | None = None
    """The same as a monotonic time of ours, where it makes sense."""
