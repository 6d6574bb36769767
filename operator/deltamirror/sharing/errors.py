"""What can go wrong between a recipient and a provider.

SharingError
├── ProfileInvalid         the profile file is not one, or its token has expired            stalling
├── CredentialsRejected    401 or 403: the provider does not accept who we are              stalling
├── NotShared              404: no such share, schema or table for this recipient           stalling
├── RequestRefused         400: the provider understands, and will not                      stalling
│   └── HistoryNotShared   it shares only the newest version of this table                  stalling
├── UntrustedAddress       it sends us where no storage is                                  stalling
├── ProviderBroken         500 every time: a table that this provider cannot serve          stalling
├── RateLimited            429                                                              waiting
├── ProviderUnreachable    no connection, or it was dropped                                 transient
├── ProviderFailed         502, 503, 504, or a 500 that may pass                            transient
├── AnswerBroken           an answer that is cut off, contradictory or not the protocol     transient
├── VersionMoved           the version that was being read is no longer the newest          transient
└── UrlExpired             a signed URL that its storage no longer accepts                  transient
"""

from __future__ import annotations

from deltamirror.errors import Fault, Kind


class SharingError(Fault):
    reason = "SharingError"

    def __init__(self, message: str, *, error_code: str | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code
        """The errorCode of the server's answer, if it sent one."""


class ProfileInvalid(SharingError):
    reason = "ProfileInvalid"


class CredentialsRejected(SharingError):
    reason = "CredentialsRejected"


class NotShared(SharingError):
    reason = "NotShared"


class RequestRefused(SharingError):
    reason = "RequestRefused"


class HistoryNotShared(RequestRefused):
    reason = "HistoryNotShared"


class UntrustedAddress(SharingError):
    reason = "UntrustedAddress"


class ProviderBroken(SharingError):
    reason = "ProviderBroken"


class RateLimited(SharingError):
    kind = Kind.WAITING
    reason = "RateLimited"

    def __init__(self, message: str, *, retry_after: float | None = None, error_code: str | None = None) -> None:
        super().__init__(message, error_code=error_code)
        self.retry_after = retry_after


class ProviderUnreachable(SharingError):
    kind = Kind.TRANSIENT
    reason = "ProviderUnreachable"


class ProviderFailed(SharingError):
    kind = Kind.TRANSIENT
    reason = "ProviderFailed"

    def __init__(self, message: str, *, error_code: str | None = None, status: int | None = None) -> None:
        super().__init__(message, error_code=error_code)
        self.status = status


class AnswerBroken(SharingError):
    kind = Kind.TRANSIENT
    reason = "AnswerBroken"


class VersionMoved(SharingError):
    kind = Kind.TRANSIENT
    reason = "VersionMoved"

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class UrlExpired(SharingError):
    kind = Kind.TRANSIENT
    reason = "UrlExpired"
