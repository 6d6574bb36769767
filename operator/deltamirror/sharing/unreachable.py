"""Why a server did not answer, in a sentence. The text of an HTTP client's error may quote headers, so little of it is used."""

from __future__ import annotations

import httpx

from deltamirror.sharing.errors import (
    CertificateRejected,
    NetworkMisconfigured,
    ProviderUnreachable,
    RequestRefused,
    SharingError,
)
from deltamirror.sharing.gate import Gate
from deltamirror.sharing.words import plain


def origin(url: str) -> str:
    parts = httpx.URL(url)
    return f"{parts.scheme}://{parts.netloc.decode()}"


def no_answer(error: httpx.HTTPError, who: str, gate: Gate) -> SharingError:
    """`who` begins the sentence. The gate is told if nobody was there at all."""
    text = plain(str(error), 200)
    match error:
        case httpx.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in text:
            _, _, why = text.partition("certificate verify failed: ")
            return CertificateRejected(
                f"the TLS certificate of {who} is not trusted ({why.partition(' (_ssl')[0] or 'no reason given'}):"
                " set DELTAMIRROR_API_CA_BUNDLE if it is signed by an authority of your own"
            )
        case httpx.ConnectError() if "WRONG_VERSION_NUMBER" in text:
            return RequestRefused(f"{who} does not speak TLS: is its address http instead of https?")
        case httpx.ProxyError() if text.startswith("407"):
            return NetworkMisconfigured(f"the proxy on the way to {who} wants other credentials (407)")
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            return RequestRefused(f"{who} cannot be asked: {type(error).__name__}")
        case httpx.ConnectError() | httpx.ProxyError():
            gate.silent()
            return ProviderUnreachable(f"{who} does not answer: {text}")
        case httpx.TimeoutException():
            gate.silent()
            return ProviderUnreachable(f"{who} does not answer in time")
        case _:
            return ProviderUnreachable(f"{who} dropped the connection")
