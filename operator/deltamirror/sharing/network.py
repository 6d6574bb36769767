"""How requests leave: proxies and certificate authorities, separately for the sharing API and for storage.

The usual variables count (HTTPS_PROXY, HTTP_PROXY, NO_PROXY, SSL_CERT_FILE). Where the API and the storage behind its signed URLs need
different ones, DELTAMIRROR_API_PROXY and DELTAMIRROR_API_CA_BUNDLE, or DELTAMIRROR_STORAGE_PROXY and DELTAMIRROR_STORAGE_CA_BUNDLE, win.
"""

from __future__ import annotations

import functools
import os
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import certifi
import urllib3

from deltamirror.errors import Fault


class NetworkMisconfigured(Fault):
    reason = "NetworkMisconfigured"


@dataclass(frozen=True, slots=True)
class Route:
    """The way to one kind of server."""

    proxy: str | None = None
    """A proxy for every request; where absent, the usual variables decide per host."""
    ca_bundle: str | None = None

    @classmethod
    def to(cls, target: Literal["API", "STORAGE"], environment: Mapping[str, str] = os.environ) -> Route:
        return cls(
            environment.get(f"DELTAMIRROR_{target}_PROXY") or None,
            environment.get(f"DELTAMIRROR_{target}_CA_BUNDLE") or environment.get("SSL_CERT_FILE") or None,
        )

    def ssl_context(self) -> ssl.SSLContext:
        return _ssl_context(self.ca_bundle)

    def httpx_arguments(self) -> dict[str, Any]:
        return {"proxy": self.proxy, "verify": self.ssl_context(), "trust_env": True}

    def pool_manager(self, host: str, scheme: str, **options: Any) -> urllib3.PoolManager:
        """urllib3 knows no proxy variables; the standard library does."""
        proxy = self.proxy
        if proxy is None and not urllib.request.proxy_bypass(host):
            proxy = urllib.request.getproxies().get(scheme)
        context = self.ssl_context()
        if proxy:
            return urllib3.ProxyManager(proxy, ssl_context=context, **options)
        return urllib3.PoolManager(ssl_context=context, **options)


@functools.lru_cache(maxsize=16)
def _ssl_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Kept, because reading a hundred certificates costs more than a request. A bundle replaces the usual authorities."""
    try:
        context = ssl.create_default_context(cafile=ca_bundle)
        if ca_bundle is None:
            context.load_verify_locations(certifi.where())  # images without certificates of their own
    except (OSError, ssl.SSLError):
        raise NetworkMisconfigured(f"the CA bundle {ca_bundle} cannot be read") from None
    return context
