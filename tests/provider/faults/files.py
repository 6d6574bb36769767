"""URLs that die, and files that are not those of the listing.

For tables on the local disk: the files of those in a bucket do not pass through the provider.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from aiohttp import web

from tests.provider.faults.fault import Fault, Respond, Stored, hang_up, started

_EXPIRED = {
    "s3": (
        403,
        '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code>'
        "<Message>Request has expired</Message><Expires>2024-01-01T00:00:00Z</Expires></Error>",
    ),
    "azure": (
        403,
        '<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to'
        " authenticate the request.</Message><AuthenticationErrorDetail>Signed expiry time [Mon, 01 Jan 2024"
        " 00:00:00 GMT] must be after signed start time</AuthenticationErrorDetail></Error>",
    ),
    "gcs": (
        400,
        "<?xml version='1.0' encoding='UTF-8'?><Error><Code>ExpiredToken</Code><Message>Invalid argument.</Message>"
        "<Details>The provided token has expired. Request signature expired at: 2024-01-01T00:00:00+00:00</Details></Error>",
    ),
}


def _expired(store: str) -> web.Response:
    status, text = _EXPIRED[store]
    return web.Response(status=status, text=text, content_type="application/xml")


@dataclass(kw_only=True)
class ExpiredUrls(Fault):
    """URLs that have expired, in the words of the three stores. List again and go on where you were."""

    on: str | tuple[str, ...] = "files"
    store: str = "s3"
    """Or "azure", or "gcs", where it is a 400."""

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return _expired(self.store)


@dataclass(kw_only=True)
class UrlsDieEarly(Fault):
    """URLs that live shorter than their line says: they were signed with credentials that ended before."""

    on: str | tuple[str, ...] = "files"
    seconds: float = 1
    store: str = "s3"

    def concerns(self, request: web.Request) -> bool:
        lifetime = self.server.config.url_lifetime_seconds
        signed = int(request.query.get("expires", 0)) / 1000 - lifetime
        return time.time() > signed + self.seconds

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return _expired(self.store)


@dataclass(kw_only=True)
class Vacuumed(Fault):
    """404: VACUUM has removed the file since the listing, or since the version that names it."""

    on: str | tuple[str, ...] = "files"

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        text = "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
        return web.Response(status=404, text=text, content_type="application/xml")


@dataclass(kw_only=True)
class WholeFileAlways(Fault):
    """200 and the whole file to a request for a range: what is appended to a started file then makes it garbage."""

    on: str | tuple[str, ...] = "files"

    def stored(self, request: web.Request, stored: Stored) -> Stored:
        return Stored(stored.data, ranges=False)


@dataclass(kw_only=True)
class AnotherSize(Fault):
    """A whole file, of another size than its line says: it was overwritten, or is not the file that was meant."""

    on: str | tuple[str, ...] = "files"
    by: int = -1

    def stored(self, request: web.Request, stored: Stored) -> Stored:
        data = stored.data[: self.by] if self.by < 0 else stored.data + b"\0" * self.by
        return Stored(data, stored.ranges)


@dataclass(kw_only=True)
class FlippedByte(Fault):
    """One byte is another one: of a deletion vector, unless `file` says otherwise. Its checksum tells."""

    on: str | tuple[str, ...] = "files"
    file: str = "deletion_vector"
    at: int = -6
    """Where; the last bytes of a vector but for its checksum, if nothing is said."""

    def stored(self, request: web.Request, stored: Stored) -> Stored:
        data = bytearray(stored.data)
        data[self.at] ^= 0xFF
        return Stored(bytes(data), stored.ranges)


@dataclass(kw_only=True)
class Overwritten(Fault):
    """A file is replaced while it is read: the first read breaks off, and the rest would be that of another file.

    Size and name are the same. The ETag is not, and If-Match and If-Range are kept to.
    """

    on: str | tuple[str, ...] = "files"
    _started: set[str] = field(default_factory=set, init=False, repr=False)

    def stored(self, request: web.Request, stored: Stored) -> Stored:
        if request.path not in self._started:
            return stored
        middle = len(stored.data) // 2
        return Stored(stored.data[:middle] + bytes(b ^ 0xFF for b in stored.data[middle:-8]) + stored.data[-8:])

    async def deliver(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        if request.path in self._started:
            return response
        self._started.add(request.path)
        body = response.body
        stream, content = await started(request, response, length=len(body) if isinstance(body, bytes) else 0)
        await stream.write(content[: len(content) // 2])
        await hang_up(request)
        raise ConnectionResetError("on purpose")
