"""The storage behind signed URLs: bulk bytes, through urllib3, which takes a quarter of the CPU that httpx takes.

A signed URL is all that is needed to read a file. It is a secret, so no error and no log line here shows more of it than its host.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationValueError, SSLError

from deltamirror.sharing.errors import (
    AnswerBroken,
    CertificateRejected,
    FileChanged,
    FileGone,
    ProviderFailed,
    ProviderUnreachable,
    RangeIgnored,
    RequestRefused,
    SharingError,
    UntrustedAddress,
    UrlExpired,
)
from deltamirror.sharing.network import Route
from deltamirror.sharing.patience import Patience
from deltamirror.sharing.times import retry_after
from deltamirror.sharing.trust import Trust

CONNECT_SECONDS, READ_SECONDS, WHOLE_SECONDS = 10.0, 60.0, 3600.0
REDIRECTS = 3
SKIP = 1024 * 1024
"""A storage that ignores ranges may still be read from a position up to this."""

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.IGNORECASE)
_ERROR_CODE = re.compile(rb"<Code>([A-Za-z]{1,60})</Code>")


class StorageClient:
    """Reads signed URLs of the provider at `endpoint`. Thread-safe; close it when done."""

    def __init__(self, endpoint: str, *, route: Route | None = None, concurrency: int = 16) -> None:
        self._route = route or Route.to("STORAGE")
        self._trust = Trust(endpoint)
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._managers: dict[str | None, urllib3.PoolManager] = {}

    def close(self) -> None:
        for manager in self._managers.values():
            manager.clear()

    def __enter__(self) -> StorageClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def get(
        self,
        url: str,
        start: int | None = None,
        end: int | None = None,
        if_match: str | None = None,
        *,
        most: int | None = None,
        deadline: float | None = None,
    ) -> Iterator[StoredBytes]:
        """Opens a file, or the bytes [start, end) of it. One attempt.

        With `if_match` it has to be the object that had this ETag. More than `most` bytes are refused, before they are read if the
        storage says how many there are. All has to be over by `deadline` (monotonic).
        """
        headers = {}
        if start is not None or end is not None:
            headers["Range"] = f"bytes={start or 0}-{end - 1 if end is not None else ''}"
        if if_match is not None:
            headers["If-Match"] = if_match
        until = deadline if deadline is not None else time.monotonic() + WHOLE_SECONDS
        response = self._send(url, headers, until)
        try:
            host = _host(url)
            if response.status not in (200, 206):
                raise _refusal(response, host)
            stored = StoredBytes(response, host, start or 0, end, most)
            yield stored
        finally:
            # A body that was read to its end has given its connection back; the rest of another is not worth waiting for.
            response.close()

    def _send(self, url: str, headers: Mapping[str, str], deadline: float) -> urllib3.BaseHTTPResponse:
        for _ in range(REDIRECTS + 1):
            self._trust.check(url)
            try:
                timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=Patience(deadline, READ_SECONDS))  # type: ignore[arg-type]
                response = self._manager(url).request(
                    "GET",
                    url,
                    headers=headers,
                    timeout=timeout,
                    redirect=False,
                    retries=False,
                    preload_content=False,
                    decode_content=False,
                )
            except (HTTPError, OSError, ValueError) as error:
                raise _failure(error, _host(url)) from None
            if response.status not in (301, 302, 303, 307, 308):
                return response
            response.close()
            url = _target(url, response.headers.get("location", ""))
        raise RequestRefused(f"the provider's storage at {_host(url)} redirects in circles")

    def _manager(self, url: str) -> urllib3.PoolManager:
        """One for each proxy that the hosts of the URLs are behind, usually none; within it a pool for each host."""
        proxy = self._route.proxy_for(_host(url), urlsplit(url).scheme)
        with self._lock:
            manager = self._managers.get(proxy)
            if manager is None:
                manager = self._route.pool_manager(proxy, num_pools=32, maxsize=self._concurrency)
                # Who is at the other end of a proxy, only the proxy knows.
                manager.pool_classes_by_scheme = _pools(self._trust if proxy is None else None)
                self._managers[proxy] = manager
            return manager


class StoredBytes:
    """The bytes that were asked for, still to be read."""

    etag: str | None
    total: int | None
    """Size of the whole object, if the storage says it."""
    length: int | None
    """How many bytes there are to read, if the storage says it."""

    def __init__(
        self, response: urllib3.BaseHTTPResponse, host: str, start: int, end: int | None, most: int | None
    ) -> None:
        self._response = response
        self._host = host
        self._most = most
        self.etag = response.headers.get("etag")
        sent = _number(response.headers.get("content-length"))
        if response.status == 206:
            self.length, self.total = self._range(start, end, sent)
        else:
            self.length, self.total = self._whole(start, end, sent)
        if most is not None and self.length is not None and self.length > most:
            raise FileChanged(
                f"the provider's storage at {host} has {self.length} bytes where at most {most} are listed"
            )
        self._given = 0

    def read(self, size: int | None = None) -> bytes:
        """The next `size` bytes, fewer only at the end; all that is left if no size is given."""
        left = self.length - self._given if self.length is not None else None
        if left is not None:
            size = left if size is None else min(size, left)
        elif size is None and self._most is not None:
            size = self._most - self._given + 1
        if size == 0:
            return b""
        data = self._take(size)
        self._given += len(data)
        if self._most is not None and self._given > self._most:
            raise FileChanged(
                f"the provider's storage at {self._host} has more bytes than the {self._most} that are listed"
            )
        if left is not None and size is not None and len(data) < size:
            raise ProviderUnreachable(
                f"the provider's storage at {self._host} cut off a file after {self._given} of {self.length} bytes"
            )
        return data

    def _take(self, size: int | None) -> bytes:
        try:
            return self._response.read(size)
        except (HTTPError, OSError, ValueError) as error:
            raise _failure(error, self._host) from None

    def _range(self, start: int, end: int | None, sent: int | None) -> tuple[int, int | None]:
        match = _CONTENT_RANGE.fullmatch(self._response.headers.get("content-range", "").strip())
        if match is None or int(match[1]) != start or int(match[2]) < start:
            raise AnswerBroken(f"the provider's storage at {self._host} sent another part of a file than was asked for")
        length = int(match[2]) - start + 1
        if (end is not None and length > end - start) or (sent is not None and sent != length):
            raise AnswerBroken(f"the provider's storage at {self._host} contradicts itself about the length of a part")
        if end is not None and length < end - start:
            raise FileChanged(f"the file at {self._host} ends before its listed size")
        return length, _number(match[3])

    def _whole(self, start: int, end: int | None, sent: int | None) -> tuple[int | None, int | None]:
        """A whole file, though perhaps a part was asked for: its beginning is cut out of it."""
        if start > SKIP:
            raise RangeIgnored(f"the provider's storage at {self._host} gives whole files only")
        if sent is not None and sent < (end if end is not None else start):
            raise FileChanged(f"the file at {self._host} ends before its listed size")
        skipped = 0
        while skipped < start:
            data = self._take(start - skipped)
            if not data:
                raise FileChanged(f"the file at {self._host} ends before its listed size")
            skipped += len(data)
        if end is not None:
            return end - start, sent
        return (sent - start if sent is not None else None), sent


# ---- connections -------------------------------------------------------------------------------------------


class _PatientResponse(http.client.HTTPResponse):
    """Reads its head and its body with a timeout that is worked out for every wait."""

    def __init__(self, patience: Patience, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_PatientBytes(self.fp.detach(), sock, patience))


class _PatientBytes(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket, patience: Patience) -> None:
        self._raw = raw
        self._sock = sock
        self._patience = patience

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._patience)  # type: ignore[arg-type]
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
            super().close()


class _Patient(HTTPConnection):
    """A connection whose answers are waited for with patience, to a server that is looked at before it is asked."""

    trust: Trust | None = None

    def connect(self) -> None:
        super().connect()
        if self.trust is not None:
            try:
                self.trust.check_address(self.sock.getpeername()[0], self.host)
            except UntrustedAddress:
                self.close()
                raise

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]  # as in urllib3 itself
        if isinstance(self.timeout, Patience):
            self.response_class = functools.partial(_PatientResponse, self.timeout)
        return super().getresponse()


class _PatientSecure(_Patient, HTTPSConnection):
    pass


def _pools(trust: Trust | None) -> dict[str, Any]:
    """The classes that make connections; urllib3 has no other way to give them something to know."""
    plain = type("Connection", (_Patient,), {"trust": trust})
    secure = type("SecureConnection", (_PatientSecure,), {"trust": trust})
    return {
        "http": type("Pool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("SecurePool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }


# ---- what went wrong ---------------------------------------------------------------------------------------


def _refusal(response: urllib3.BaseHTTPResponse, host: str) -> SharingError:
    status = response.status
    try:
        code = _ERROR_CODE.search(response.read(4096))
    except (HTTPError, OSError, ValueError):
        code = None
    said = f"{status} {code[1].decode()}" if code else str(status)
    match status:
        case 400 | 401 | 403:  # Google answers 400 where Amazon and Microsoft answer 403
            return UrlExpired(f"the provider's storage at {host} does not accept a signed URL ({said})", status=status)
        case 404 | 410:
            return FileGone(f"a file of the table is not in the provider's storage at {host} ({said})", status=status)
        case 412 | 416:
            return FileChanged(f"the file at {host} is not the one that was being read ({said})", status=status)
    if status in (408, 429) or status >= 500:
        wait = retry_after(response.headers)
        return ProviderFailed(f"the provider's storage at {host} failed ({said})", status=status, retry_after=wait)
    return RequestRefused(f"the provider's storage at {host} refuses to give a file ({said})", status=status)


def _failure(error: Exception, host: str) -> SharingError:
    """The text of these errors holds URLs; their type does not."""
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CertificateRejected(
            f"the TLS certificate of the provider's storage at {host} is not trusted:"
            " set DELTAMIRROR_STORAGE_CA_BUNDLE if it is signed by an authority of your own"
        )
    if isinstance(error, LocationValueError):
        return UntrustedAddress("the provider sent something as the URL of a file that is none")
    return ProviderUnreachable(f"the provider's storage at {host} does not answer: {type(error).__name__}")


def _target(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
    except ValueError:
        target = ""
    if not location or (url.startswith("https:") and not target.startswith("https:")):
        raise UntrustedAddress(f"the provider's storage at {_host(url)} redirects to a place that is not https")
    return target


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


class _WithoutQueries(logging.Filter):
    """urllib3 logs the address of every request, at the level of debugging, and of every odd header as a warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                argument.partition("?")[0] if isinstance(argument, str) and "?" in argument else argument
                for argument in record.args
            )
        return True


for _name in ("urllib3.connection", "urllib3.connectionpool"):
    logging.getLogger(_name).addFilter(_WithoutQueries())
