"""Lines that are not what they seem: cut short, doubled, shuffled, of another format, or not true."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from itertools import islice
from time import time
from typing import Any

import msgspec
from aiohttp import web

from sharing_provider import Answer
from sharing_provider.answers import Client
from tests.provider.faults.fault import Asked, Fault, Line, Respond, is_file, with_headers, with_lines

CAPABILITIES = "delta-sharing-capabilities"


@dataclass(kw_only=True)
class TruncatedAtLineEnd(Fault):
    """The answer ends properly, after a whole line, and half of it is missing: it looks like a mass delete.

    Only the missing EndStreamAction tells.
    """

    keep: int = 3

    def rewritten(self, answer: Answer) -> Answer:
        return Answer(answer.headers, islice(answer.lines, self.keep))


@dataclass(kw_only=True)
class TruncatedMidLine(Fault):
    """The answer ends properly in the middle of a line."""

    keep: int = 3

    def rewritten(self, answer: Answer) -> Answer:
        def cut() -> Iterator[bytes]:
            yield from islice(answer.lines, self.keep)
            if last := next(answer.lines, b""):
                yield last[: len(last) // 2]

        return Answer(answer.headers, cut())


@dataclass(kw_only=True)
class EndMissing(Fault):
    """No EndStreamAction although one was asked for, and whatever the header says of it.

    `promised`: True and the answer is broken; False or None (not a word of it) and the server only does not send any.
    """

    promised: bool | None = True

    def rewritten(self, answer: Answer) -> Answer:
        (response_format, *_) = answer.headers.get(CAPABILITIES, "").split(";")
        word = "" if self.promised is None else f";includeendstreamaction={str(self.promised).lower()}"
        headers = {**answer.headers, CAPABILITIES: response_format + word}
        ended = with_headers(answer, headers)
        return with_lines(ended, lambda lines: [line for line in lines if "endStreamAction" not in line])


@dataclass(kw_only=True)
class ErrorAtTheEnd(Fault):
    """An error after 200 was sent: it stands in the EndStreamAction, and what came before it is not the answer."""

    message: str = "The warehouse was stopped."
    status: int | None = None
    keep: int = 3

    def rewritten(self, answer: Answer) -> Answer:
        end: Line = {"errorMessage": self.message}
        if self.status is not None:
            end["httpStatusErrorCode"] = self.status
        return with_lines(answer, lambda lines: [*lines[: self.keep], {"endStreamAction": end}])


@dataclass(kw_only=True)
class EmptyPageToken(Fault):
    """The token of the page after the last one is "" instead of absent: both mean that there is none."""

    on: str | tuple[str, ...] = ("query", "changes", "listings")

    def rewritten(self, answer: Answer) -> Answer:
        def emptied(lines: list[Line]) -> list[Line]:
            for line in lines:
                if "endStreamAction" in line:
                    line["endStreamAction"].setdefault("nextPageToken", "")
            return lines

        return with_lines(answer, emptied)

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return await _with_listing(request, respond, lambda page: {"nextPageToken": "", **page})


@dataclass(kw_only=True)
class ItemsMissing(Fault):
    """A listing of nothing has no `items` at all."""

    on: str | tuple[str, ...] = "listings"

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return await _with_listing(request, respond, lambda page: {k: v for k, v in page.items() if k != "items"})


@dataclass(kw_only=True)
class RepeatedFile(Fault):
    """A file comes twice: on two pages, or at both ends of an answer. With another URL it is still one file.

    With `other_content` it has the same id and another size: which of the two is right nobody can know.
    """

    on: str | tuple[str, ...] = ("query", "changes")
    other_content: bool = False
    _last: Line | None = field(default=None, init=False, repr=False)

    def rewritten(self, answer: Answer) -> Answer:
        def repeated(lines: list[Line]) -> list[Line]:
            files = [line for line in lines if is_file(line)]
            before, self._last = self._last, files[-1] if files else None
            source = before or (files[0] if files else None)
            if source is None:
                return lines
            again = self._again(source)
            if before:  # from the page before, where it was the last
                return [*lines[:2], again, *lines[2:]]
            last = len(lines) - ("endStreamAction" in lines[-1])
            return [*lines[:last], again, *lines[last:]]

        return with_lines(answer, repeated)

    def _again(self, line: Line) -> Line:
        again: Line = json.loads(json.dumps(line))
        ((_, value),) = again.items()
        target = value
        if "deltaSingleAction" in value:
            ((_, target),) = value["deltaSingleAction"].items()
        for name in target.keys() & {"path", "url"}:
            target[name] += "&again=yes"
        if self.other_content:
            target["size"] += 1
        return again


@dataclass(kw_only=True)
class ShuffledLines(Fault):
    """Lines in any order but for the EndStreamAction: "the ordering of the lines doesn't matter" (PROTOCOL)."""

    on: str | tuple[str, ...] = ("query", "changes")
    seed: int = 4

    def rewritten(self, answer: Answer) -> Answer:
        def shuffled(lines: list[Line]) -> list[Line]:
            end = [line for line in lines if "endStreamAction" in line]
            others = [line for line in lines if "endStreamAction" not in line]
            random.Random(self.seed).shuffle(others)
            return others + end

        return with_lines(answer, shuffled)


@dataclass(kw_only=True)
class FromTheFuture(Fault):
    """Fields and lines that this client has never heard of: a server that is newer. They mean nothing to it."""

    on: str | tuple[str, ...] = ("query", "changes", "metadata", "listings")

    def rewritten(self, answer: Answer) -> Answer:
        def extended(lines: list[Line]) -> list[Line]:
            found: list[Line] = [{"advisory": {"text": "a kind of line that does not exist yet"}}]
            for line in lines:
                found += [_extended(line, "line"), {"advisory": {}}]
            return found[:-1]  # the last line stays the last

        return with_lines(answer, extended)

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return await _with_listing(request, respond, _extended)


@dataclass(kw_only=True)
class ParquetInstead(Fault):
    """The parquet format although delta was asked for: an old server, or one that saw no need.

    Of a table with deletion vectors such an answer would bring deleted rows back; its protocol line tells.
    """

    on: str | tuple[str, ...] = ("query", "changes", "metadata")
    said: bool = True
    """Whether the header says so, or there is no header."""

    def client(self, client: Client) -> Client:
        return replace(client, able=replace(client.able, formats=frozenset({"parquet"})))

    def rewritten(self, answer: Answer) -> Answer:
        if self.said:
            return answer
        return with_headers(answer, {k: v for k, v in answer.headers.items() if k != CAPABILITIES})


@dataclass(kw_only=True)
class SpeltOtherwise(Fault):
    """Headers in other case and with blanks: both are allowed, and gateways do both."""

    on: str | tuple[str, ...] = ("query", "changes", "metadata")

    def rewritten(self, answer: Answer) -> Answer:
        able = answer.headers[CAPABILITIES].replace("responseformat", "ResponseFormat").replace("=delta", "=Delta")
        able = able.replace("includeendstreamaction=true", "IncludeEndStreamAction=True").replace(";", " ; ")
        others = {k: v for k, v in answer.headers.items() if k != CAPABILITIES}
        return with_headers(answer, {**{k.upper(): v for k, v in others.items()}, CAPABILITIES.upper(): able})


@dataclass(kw_only=True)
class BeyondTheEnd(Fault):
    """Versions after endingVersion, which is only a hint to the server."""

    on: str | tuple[str, ...] = ("query", "changes")

    def asked(self, asked: Asked) -> Asked:
        return msgspec.structs.replace(asked, ending_version=None)


@dataclass(kw_only=True)
class SkewedClock(Fault):
    """A server whose clock is off: what it says of expiry and date is, the URLs are good as ever."""

    on: str | tuple[str, ...] = ("query", "changes")
    seconds: int = -7200

    def rewritten(self, answer: Answer) -> Answer:
        def skewed(lines: list[Line]) -> list[Line]:
            for line in lines:
                ((_, value),) = line.items()
                for name in value.keys() & {"expirationTimestamp", "minUrlExpirationTimestamp"}:
                    value[name] += self.seconds * 1000
            return lines

        date = formatdate(time() + self.seconds, usegmt=True)
        return with_headers(with_lines(answer, skewed), {**answer.headers, "Date": date})


@dataclass(kw_only=True)
class WrongNumFiles(Fault):
    """The metadata counts other files than the answer has: it is a statistic, and an old one."""

    on: str | tuple[str, ...] = ("query", "metadata")
    by: int = 1

    def rewritten(self, answer: Answer) -> Answer:
        def counted(lines: list[Line]) -> list[Line]:
            files = sum(is_file(line) for line in lines)
            for line in lines:
                if "metaData" in line:
                    line["metaData"]["numFiles"] = line["metaData"].get("numFiles", files) + self.by
            return lines

        return with_lines(answer, counted)


@dataclass(kw_only=True)
class WrongVersion(Fault):
    """The header names another version than the answer is of: a cache between us, or a replica that lags."""

    on: str | tuple[str, ...] = ("query", "version", "metadata")
    by: int = 1

    def rewritten(self, answer: Answer) -> Answer:
        version = int(answer.headers["Delta-Table-Version"]) + self.by
        return with_headers(answer, {**answer.headers, "Delta-Table-Version": str(version)})

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        response = await respond(request)
        if not response.prepared and response.status == 200 and request.path.endswith("/version"):
            version = int(response.headers["Delta-Table-Version"]) + self.by
            response.headers["Delta-Table-Version"] = str(version)
        return response


async def _with_listing(
    request: web.Request, respond: Respond, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> web.StreamResponse:
    response = await respond(request)
    if isinstance(response, web.Response) and response.status == 200 and response.content_type == "application/json":
        response.text = json.dumps(change(json.loads(response.text or "{}")))
    return response


def _extended(value: Any, name: str = "") -> Any:
    """A JSON value with a field more in each object but those whose fields are names: of actions, columns, properties."""
    match value:
        case dict() if name in ("partitionValues", "configuration", "options", "tags"):
            return value
        case dict():
            found = {k: _extended(v, k) for k, v in value.items()}
            return found if name in ("line", "deltaSingleAction") else {**found, "fieldFromTheFuture": {"x": 1}}
        case list():
            return [_extended(item, name) for item in value]
    return value
