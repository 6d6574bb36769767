"""What can go wrong between a recipient and a provider.

SharingError
├── ProfileInvalid         the profile file is not one, or its token has expired            stalling
├── NetworkMisconfigured   a proxy or a CA bundle of ours that cannot be used               stalling
├── CertificateRejected    a TLS certificate that we do not trust                           stalling
├── CredentialsRejected    401 or 403: the provider does not accept who we are              stalling
├── NotASharingServer      the endpoint answers, but with a web page                        stalling
├── NotShared              404: no such share, schema or table for this recipient           stalling
├── RequestRefused         400: the provider understands, and will not                      stalling
│   ├── HistoryNotShared   it shares only the newest version of this table                  stalling
│   └── NotATable          a view or the like, which has no files                           stalling
├── UntrustedAddress       it sends us where no storage is                                  stalling
├── ProviderBroken         500 every time: a table that this provider cannot serve          stalling
├── RateLimited            429                                                              waiting
├── ProviderUnreachable    no connection, or it was dropped                                 transient
├── ProviderFailed         502, 503, 504, or a 500 that may pass                            transient
├── AnswerBroken           an answer that is cut off, contradictory or not the protocol     transient
│   └── NotUnderstood      a line about a file that we cannot make sense of, nor leave out  stalling
├── VersionMoved           the version that was being read is no longer the newest          transient
├── UrlExpired             a signed URL that its storage does not accept any more           transient
├── FileGone               404 from storage: the file was vacuumed                          transient
├── FileChanged            the object behind a URL is not the file that was listed          transient
└── RangeIgnored           a storage that gives whole files only                            stalling
"""

from __future__ import annotations

from deltamirror.errors import Fault, Kind


class SharingError(Fault):
    reason = "SharingError"

    def __init__(
        self,
        message: str,
        *,
        error_code: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        """The errorCode of the server's answer, if it sent one."""
        self.status = status
        """The HTTP status, if it came to one."""
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again, if it said so."""


class ProfileInvalid(SharingError):
    reason = "ProfileInvalid"


class NetworkMisconfigured(SharingError):
    reason = "NetworkMisconfigured"


class CertificateRejected(SharingError):
    reason = "CertificateRejected"


class CredentialsRejected(SharingError):
    reason = "CredentialsRejected"


class NotASharingServer(SharingError):
    reason = "NotASharingServer"


class NotShared(SharingError):
    reason = "NotShared"


class RequestRefused(SharingError):
    reason = "RequestRefused"


class HistoryNotShared(RequestRefused):
    reason = "HistoryNotShared"


class NotATable(RequestRefused):
    reason = "NotATable"


class UntrustedAddress(SharingError):
    reason = "UntrustedAddress"


class ProviderBroken(SharingError):
    reason = "ProviderBroken"


class RateLimited(SharingError):
    kind = Kind.WAITING
    reason = "RateLimited"


class ProviderUnreachable(SharingError):
    kind = Kind.TRANSIENT
    reason = "ProviderUnreachable"


class ProviderFailed(SharingError):
    kind = Kind.TRANSIENT
    reason = "ProviderFailed"


class AnswerBroken(SharingError):
    kind = Kind.TRANSIENT
    reason = "AnswerBroken"


class NotUnderstood(AnswerBroken):
    kind = Kind.STALLING
    reason = "AnswerNotUnderstood"


class VersionMoved(SharingError):
    kind = Kind.TRANSIENT
    reason = "VersionMoved"

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class UrlExpired(SharingError):
    kind = Kind.TRANSIENT
    reason = "UrlExpired"


class FileGone(SharingError):
    kind = Kind.TRANSIENT
    reason = "FileGone"


class FileChanged(SharingError):
    kind = Kind.TRANSIENT
    reason = "FileChanged"


class RangeIgnored(SharingError):
    reason = "RangeIgnored"
