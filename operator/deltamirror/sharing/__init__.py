"""The Delta Sharing protocol, as a client. Knows nothing of mirrors.

profile  network  auth       who we are, and how requests leave
transport  gate              one request: deadlines, retries, errors; one gate per provider
query  lines  actions        what is asked, and what comes back
answer  client               streamed answers over pages; every endpoint
trust                        what is not taken from a provider
"""

from deltamirror.sharing.actions import (
    ChangeFile,
    RemovedFile,
    SharedDeletionVector,
    SharedFile,
    SharedSnapshot,
    TableDescription,
    TableMetadata,
    TableName,
    TableProtocol,
)
from deltamirror.sharing.answer import Answer
from deltamirror.sharing.client import FreshUrls, SharingClient
from deltamirror.sharing.errors import (
    AnswerBroken,
    CredentialsRejected,
    HistoryNotShared,
    NotShared,
    ProfileInvalid,
    ProviderBroken,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
    SharingError,
    UntrustedAddress,
    UrlExpired,
    VersionMoved,
)
from deltamirror.sharing.network import Route
from deltamirror.sharing.profile import Profile
from deltamirror.sharing.query import Changes, Query

__all__ = [
    "Answer",
    "AnswerBroken",
    "ChangeFile",
    "Changes",
    "CredentialsRejected",
    "FreshUrls",
    "HistoryNotShared",
    "NotShared",
    "Profile",
    "ProfileInvalid",
    "ProviderBroken",
    "ProviderFailed",
    "ProviderUnreachable",
    "Query",
    "RateLimited",
    "RemovedFile",
    "RequestRefused",
    "Route",
    "SharedDeletionVector",
    "SharedFile",
    "SharedSnapshot",
    "SharingClient",
    "SharingError",
    "TableDescription",
    "TableMetadata",
    "TableName",
    "TableProtocol",
    "UntrustedAddress",
    "UrlExpired",
    "VersionMoved",
]
