"""Asking a provider by hand: one request, one answer, nothing retried and nothing interpreted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from sharing_provider import Config, Provider, Server, serve
from sharing_provider.config import Schema, Share, Table

TOKEN = "token"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
CAPABILITIES = "responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"
DELTA = {**AUTHORIZED, "delta-sharing-capabilities": CAPABILITIES}
Line = dict[str, Any]


def share(*tables: Table, **settings: Any) -> Config:
    """Shares tables as s.d.NAME."""
    return Config(TOKEN, [Share("s", [Schema("d", list(tables))])], **settings)


class Asker:
    def __init__(self, endpoint: str, client: httpx.Client) -> None:
        self.endpoint = endpoint
        self.client = client

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        """`path` starts with the name of a table."""
        return self.client.request(method, f"{self.endpoint}/shares/s/schemas/d/tables/{path}", **options)

    def query(self, table: str, capabilities: str = CAPABILITIES, **body: Any) -> httpx.Response:
        return self("POST", f"{table}/query", json=body, headers={"delta-sharing-capabilities": capabilities})

    def changes(self, table: str, capabilities: str = CAPABILITIES, **parameters: Any) -> httpx.Response:
        return self("GET", f"{table}/changes", params=parameters, headers={"delta-sharing-capabilities": capabilities})

    def pages(self, table: str, **body: Any) -> Iterator[httpx.Response]:
        """All pages of a query."""
        token = None
        while token != "":
            yield (answer := self.query(table, **body, **({"pageToken": token} if token else {})))
            token = end_of(answer).get("nextPageToken", "")


@contextlib.contextmanager
def asker(provider: Provider) -> Iterator[Asker]:
    with httpx.Client(headers=DELTA, timeout=20) as client:
        yield Asker(provider.endpoint, client)


@contextlib.contextmanager
def asking(config: Config, make_server: Callable[[Config], Server] = Server) -> Iterator[Asker]:
    with serve(config, make_server=make_server) as provider, asker(provider) as ask:
        yield ask


def lines_of(answer: httpx.Response) -> list[Line]:
    return [json.loads(line) for line in answer.raise_for_status().text.splitlines()]


def files_of(answer: httpx.Response) -> list[Line]:
    """What is in the file lines of an answer in the delta format."""
    return [line["file"] for line in lines_of(answer) if "file" in line]


def adds_of(answer: httpx.Response) -> list[Line]:
    return [file["deltaSingleAction"]["add"] for file in files_of(answer)]


def end_of(answer: httpx.Response) -> Line:
    end: Line = lines_of(answer)[-1]["endStreamAction"]
    return end


def version_of(answer: httpx.Response) -> str:
    return answer.raise_for_status().headers["delta-table-version"]


def refusal_of(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.json()['errorCode']}: {answer.json()['message']}"
