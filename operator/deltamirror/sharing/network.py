"""How requests leave: proxies and certificate authorities, separately for the sharing API and for storage.

The usual variables count (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE). Where the API and the storage behind its signed
URLs need different ones, DELTAMIRROR_API_PROXY and DELTAMIRROR_API_CA_BUNDLE, or DELTAMIRROR_STORAGE_PROXY and
DELTAMIRROR_STORAGE_CA_BUNDLE, win.
"""

from __future__ import annotations

import functools
import os
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import certifi
import httpx
import urllib3

from deltamirror.sharing.errors import NetworkMisconfigured


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
        try:
            changed = os.stat(self.ca_bundle).st_mtime_ns if self.ca_bundle else 0
            return _ssl_context(self.ca_bundle, changed)
        except OSError:  # of which the errors of ssl are a kind
            raise NetworkMisconfigured(
                f"the CA bundle {self.ca_bundle} cannot be read, or holds no certificate"
            ) from None

    def http_client(self, **options: Any) -> httpx.Client:
        """For the API."""
        try:
            return httpx.Client(proxy=self.proxy, verify=self.ssl_context(), trust_env=True, **options)
        except (ValueError, TypeError, ImportError, httpx.InvalidURL):
            raise _unusable_proxy() from None

    def proxy_for(self, host: str, scheme: str) -> str | None:
        """urllib3 knows no proxy variables; the standard library does."""
        if self.proxy is not None:
            return self.proxy
        if urllib.request.proxy_bypass(host):
            return None
        found = urllib.request.getproxies()
        return found.get(scheme) or found.get("all")

    def pool_manager(self, proxy: str | None, **options: Any) -> urllib3.PoolManager:
        """For storage."""
        context = self.ssl_context()
        if proxy is None:
            return urllib3.PoolManager(ssl_context=context, **options)
        url = proxy if "://" in proxy else f"http://{proxy}"
        try:
            parts = urlsplit(url)
            headers = None
            if parts.username is not None:
                login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
                headers = urllib3.make_headers(proxy_basic_auth=login)
                url = url.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1)
            return urllib3.ProxyManager(
                url, ssl_context=context, proxy_ssl_context=context, proxy_headers=headers, **options
            )
        except (ValueError, urllib3.exceptions.HTTPError):
            raise _unusable_proxy() from None


def _unusable_proxy() -> NetworkMisconfigured:
    return NetworkMisconfigured(
        "a proxy of the environment cannot be used: it has to be the http or https URL of an HTTP proxy"
    )


@functools.lru_cache(maxsize=16)
def _ssl_context(ca_bundle: str | None, _changed: int) -> ssl.SSLContext:
    """Kept, because reading a hundred certificates costs more than a request. A bundle replaces the usual authorities."""
    context = ssl.create_default_context(cafile=ca_bundle)
    if ca_bundle is None:
        context.load_verify_locations(certifi.where())  # images without certificates of their own
    return context
