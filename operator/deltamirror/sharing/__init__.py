"""The Delta Sharing protocol, as a client. Knows nothing of mirrors.

profile  network  auth          who we are, and how requests leave
transport  gate  patience       one request: deadlines, retries; one gate per provider
refusals  unreachable  words    errors: from answers, from their absence, in words that tell no secret
query  lines  actions  times    what is asked, and what comes back
answer  client                  streamed answers over pages; every endpoint
storage                         the bytes behind signed URLs
trust                           what is not taken from a provider
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
    CertificateRejected,
    CredentialsRejected,
    FileChanged,
    FileGone,
    HistoryNotShared,
    NetworkMisconfigured,
    NotASharingServer,
    NotATable,
    NotShared,
    NotUnderstood,
    ProfileInvalid,
    ProviderBroken,
    ProviderFailed,
    ProviderUnreachable,
    RangeIgnored,
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
from deltamirror.sharing.storage import StorageClient, StoredBytes
from deltamirror.sharing.times import ServerClock

__all__ = [
    "Answer",
    "AnswerBroken",
    "CertificateRejected",
    "ChangeFile",
    "Changes",
    "CredentialsRejected",
    "FileChanged",
    "FileGone",
    "FreshUrls",
    "HistoryNotShared",
    "NetworkMisconfigured",
    "NotASharingServer",
    "NotATable",
    "NotShared",
    "NotUnderstood",
    "Profile",
    "ProfileInvalid",
    "ProviderBroken",
    "ProviderFailed",
    "ProviderUnreachable",
    "Query",
    "RangeIgnored",
    "RateLimited",
    "RemovedFile",
    "RequestRefused",
    "Route",
    "ServerClock",
    "SharedDeletionVector",
    "SharedFile",
    "SharedSnapshot",
    "SharingClient",
    "SharingError",
    "StorageClient",
    "StoredBytes",
    "TableDescription",
    "TableMetadata",
    "TableName",
    "TableProtocol",
    "UntrustedAddress",
    "UrlExpired",
    "VersionMoved",
]
