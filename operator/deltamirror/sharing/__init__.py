"""The Delta Sharing protocol, as a client. Knows nothing of mirrors."""

from deltamirror.sharing.actions import (
    SharedDeletionVector,
    SharedFile,
    SharedSnapshot,
    TableMetadata,
    TableName,
    TableProtocol,
)
from deltamirror.sharing.client import SharingClient
from deltamirror.sharing.errors import (
    AnswerBroken,
    CredentialsRejected,
    NotShared,
    ProfileInvalid,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
    SharingError,
)
from deltamirror.sharing.profile import Profile

__all__ = [
    "AnswerBroken",
    "CredentialsRejected",
    "NotShared",
    "Profile",
    "ProfileInvalid",
    "ProviderFailed",
    "ProviderUnreachable",
    "RateLimited",
    "RequestRefused",
    "SharedDeletionVector",
    "SharedFile",
    "SharedSnapshot",
    "SharingClient",
    "SharingError",
    "TableMetadata",
    "TableName",
    "TableProtocol",
]
