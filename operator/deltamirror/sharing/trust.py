"""What is not taken from a provider, whatever it sends: URLs that point into our own network's soft spots.

A provider decides which URLs we read. Without these checks it could make us read the metadata service of our own cloud.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

from deltamirror.sharing.errors import UntrustedAddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_METADATA_SERVICES = frozenset(
    ipaddress.ip_address(text) for text in ("fd00:ec2::254", "fd20:ce::254", "168.63.129.16", "100.100.100.200")
)
"""Of clouds that do not keep theirs at a link-local address alone."""
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")
"""What two parsers of URLs may disagree about."""


class Trust:
    """Which URLs of files a provider at `endpoint` may send. Hosts are looked up once."""

    def __init__(self, endpoint: str) -> None:
        home = urlsplit(endpoint)
        self._http_allowed = home.scheme == "http"
        self._home = home.hostname or ""
        self._good: set[str] = set()

    def check(self, url: str) -> None:
        origin = url[: url.find("/", 8) + 1]  # all that decides where a request goes is before the path
        if not origin or origin not in self._good:
            self._check_origin(url, origin)
            self._good.add(origin)

    def check_address(self, text: str, host: str) -> None:
        """Of a server that we are about to ask: what a name stood for when it was looked up may have changed since."""
        self._refuse(_address(text), host)

    def _check_origin(self, url: str, origin: str) -> None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            raise UntrustedAddress("the provider sent something as the URL of a file that is none") from None
        if _AMBIGUOUS.search(origin or url) or not host:
            raise UntrustedAddress("the provider sent something as the URL of a file that is none")
        if parts.scheme != "https" and not (parts.scheme == "http" and self._http_allowed):
            raise UntrustedAddress(f"the provider sent a URL of {host} that is not https")
        if parts.username is not None:
            raise UntrustedAddress(f"the provider sent a URL of {host} with credentials in it")
        for address in addresses(host):
            self._refuse(address, host)

    def _refuse(self, address: Address, host: str) -> None:
        if address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA_SERVICES:
            raise UntrustedAddress(f"the provider sent a URL of {host}, an address that no storage has")
        if address.is_loopback and not any(a.is_loopback for a in addresses(self._home)):
            raise UntrustedAddress(f"the provider sent a URL of {host}, which is this machine itself")


def addresses(host: str) -> list[Address]:
    """The addresses of a host; none if it cannot be resolved here, as behind a proxy."""
    try:
        return [_address(host)]
    except ValueError:
        pass  # a name, or an address written in one of the older ways
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return []
    return [_address(text) for text in sorted(found)]


def _address(text: str) -> Address:
    """IPv4 in the clothes of IPv6 is IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
