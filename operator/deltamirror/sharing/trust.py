"""What is not taken from a provider, whatever it sends: URLs that point into our own network's soft spots.

A provider decides which URLs we read. Without these checks it could make us read the metadata service of our own cloud.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from urllib.parse import urlsplit

from deltamirror.sharing.errors import UntrustedAddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_url(url: str, endpoint: str) -> None:
    """Refuses a URL of a file that a provider at `endpoint` has no business to send."""
    parts, home = urlsplit(url), urlsplit(endpoint)
    host = parts.hostname or ""
    if parts.scheme != "https" and not (parts.scheme == "http" and home.scheme == "http"):
        raise UntrustedAddress(f"the provider sent a URL of {host or 'no host'} that is not https")
    if parts.username is not None:
        raise UntrustedAddress(f"the provider sent a URL of {host} with credentials in it")
    loopback_allowed = any(a.is_loopback for a in addresses(home.hostname or ""))
    for address in addresses(host):
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            raise UntrustedAddress(f"the provider sent a URL of {host}, an address that no storage has")
        if address.is_loopback and not loopback_allowed:
            raise UntrustedAddress(f"the provider sent a URL of {host}, which is this machine itself")


@functools.lru_cache(maxsize=1024)
def addresses(host: str) -> tuple[Address, ...]:
    """The addresses of a host; none if it cannot be resolved here, as behind a proxy."""
    try:
        found = {str(info[4][0]).split("%")[0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return ()
    return tuple(_unmapped(ipaddress.ip_address(text)) for text in sorted(found))


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
