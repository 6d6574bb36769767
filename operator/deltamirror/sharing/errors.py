"""What can go wrong between a recipient and a provider.

SharingError
├── ProfileInvalid         the profile file is not one, or its token has expired          stalling
├── CredentialsRejected    401 or 403: the provider does not accept the token             stalling
├── NotShared              404: no such share, schema or table for this recipient         stalling
├── RequestRefused         400: the provider understands and will not (features, history) stalling
├── RateLimited            429                                                            waiting
├── ProviderUnreachable    no connection, or it was dropped                               transient
├── ProviderFailed         5xx                                                            transient
└── AnswerBroken           an answer that is cut off, contradictory or not the protocol   transient
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


class AnswerBroken(SharingError):
    kind = Kind.TRANSIENT
    reason = "AnswerBroken"
