"""Every fault really happens on the wire: seen with a plain HTTP client that forgives nothing and knows nothing."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from sharing_provider import Config
from sharing_provider.config import Table
from tests import misbehaviour
from tests.data import TABLES
from tests.misbehaviour import (
    AnotherSize,
    AnswersLater,
    BeyondTheEnd,
    ConnectionReset,
    CutOff,
    Denied,
    Dribble,
    EmptyPageToken,
    EndMissing,
    ErrorAtTheEnd,
    ExpiredUrls,
    Fault,
    FlippedByte,
    FromTheFuture,
    Gzip,
    HtmlInstead,
    ItemsMissing,
    MisbehavingProvider,
    Overwritten,
    PageTokenExpired,
    ParquetInstead,
    PermanentFailure,
    RedirectElsewhere,
    RedirectHere,
    RepeatedFile,
    ServerErrors,
    ShuffledLines,
    Silence,
    SkewedClock,
    SpeltOtherwise,
    TooManyRequests,
    TruncatedAtLineEnd,
    TruncatedMidLine,
    UrlsDieEarly,
    Vacuumed,
    WholeFileAlways,
    WrongNumFiles,
    WrongVersion,
    misbehaving,
)
from tests.provider.asking import AUTHORIZED, CAPABILITIES, Asker, Line, asker, end_of, files_of, lines_of, share

WITH_END = f"{CAPABILITIES};includeendstreamaction=true"
ORDERS = 8
"""Files in `orders`."""


def _config() -> Config:
    return share(*(Table(name, f"file://{TABLES}/{name}", f"id-{name}", True) for name in ("orders", "dv_basic")))


@contextlib.contextmanager
def asking(*faults: Fault) -> Iterator[tuple[Asker, MisbehavingProvider]]:
    with misbehaving(_config(), *faults) as provider, asker(provider) as ask:
        yield ask, provider


@pytest.fixture(scope="module")
def well() -> Iterator[Asker]:
    """The same provider, behaving."""
    with asking() as (ask, _):
        yield ask


def _urls(answer: httpx.Response, vectors: bool = False) -> list[str]:
    adds = [file["deltaSingleAction"]["add"] for file in files_of(answer)]
    if vectors:
        return [add["deletionVector"]["pathOrInlineDv"] for add in adds if "deletionVector" in add]
    return [add["path"] for add in adds]


def _statuses(ask: Asker, times: int) -> list[int]:
    return [ask.query("orders").status_code for _ in range(times)]


def _kinds(answer: httpx.Response) -> list[str]:
    return [next(iter(line)) for line in lines_of(answer)]


def test_without_faults_it_is_a_provider_that_counts() -> None:
    with asking() as (ask, provider):
        url = _urls(ask.query("orders"))[0]
        ask.query("orders", version=0)
        ask("GET", "orders/version")
        for _ in range(3):
            ask.client.get(url).raise_for_status()
        endpoints = ("query", "version", "files", "metadata")
        assert {name: provider.asked(name) for name in endpoints} == {
            "query": 2,
            "version": 1,
            "files": 3,
            "metadata": 0,
        }
        name = url.split("?")[0].rpartition("/")[2]
        assert provider.asked("files", name) == 3
        assert provider.paths()["/delta-sharing/shares/s/schemas/d/tables/orders/query"] == 2
        assert [json.loads(seen.body) for seen in provider.requests[:2]] == [{}, {"version": 0}]
        assert provider.requests[0].headers["Authorization"] == AUTHORIZED["Authorization"]


def test_a_fault_strikes_so_often_and_so_late_as_it_was_told() -> None:
    with asking(fault := ServerErrors(after=1, times=2)) as (ask, provider):
        assert _statuses(ask, 5) == [200, 503, 503, 200, 200]
        assert ask("GET", "orders/version").status_code == 200
    assert (fault.struck, provider.asked("query")) == (2, 5)


def test_faults_strike_one_after_the_other() -> None:
    with asking(TooManyRequests(times=1), ServerErrors(status=502, times=2)) as (ask, _):
        assert _statuses(ask, 4) == [429, 502, 200, 200]


def test_a_fault_may_be_on_several_endpoints() -> None:
    with asking(ServerErrors(on=("version", "listings"))) as (ask, _):
        assert ask("GET", "orders/version").status_code == 503
        assert ask.client.get(f"{ask.endpoint}/shares").status_code == 503
        assert ask.client.get(f"{ask.endpoint}/shares/s/schemas/d/tables").status_code == 503
        assert ask("GET", "orders/metadata").status_code == 200


# ---- another status, or another answer than the one asked for ----------------------------------------------


@pytest.mark.parametrize("retry_after", [None, 1, "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_too_many_requests(retry_after: str | int | None) -> None:
    with asking(TooManyRequests(times=2, retry_after=retry_after)) as (ask, _):
        answers = [ask.query("orders") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 429, 200]
    assert answers[0].headers.get("retry-after") == (None if retry_after is None else str(retry_after))


def test_server_errors() -> None:
    with asking(ServerErrors(status=504, times=3)) as (ask, _):
        assert _statuses(ask, 4) == [504, 504, 504, 200]


def test_a_permanent_failure() -> None:
    with asking(PermanentFailure(on="version")) as (ask, _):
        for _ in range(5):
            answer = ask("GET", "orders/version")
            assert (answer.status_code, answer.text) == (500, '{"errorCode":"INTERNAL_ERROR","message":""}')
            assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("status", [401, 403])
def test_denied(status: int) -> None:
    with asking(Denied(status=status, after=1)) as (ask, _):
        assert _statuses(ask, 3) == [200, status, status]


@pytest.mark.parametrize("status", [200, 502])
def test_html_instead(status: int) -> None:
    with asking(HtmlInstead(status=status)) as (ask, _):
        answer = ask.query("orders")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert answer.text.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("status", [302, 307, 308])
def test_a_redirect_here(status: int) -> None:
    with asking(RedirectHere(status=status, on=("query", "version"))) as (ask, provider):
        answer = ask("GET", "orders/version")
        assert answer.status_code == status
        assert ask.client.get(answer.headers["location"]).headers["delta-table-version"] == "6"
        assert answer.headers["location"].startswith(ask.endpoint)
        assert ask.query("orders").status_code == status
        assert provider.asked("version") == 2


def test_a_redirect_elsewhere_notes_who_sends_the_token_along() -> None:
    with asking(fault := RedirectElsewhere(on=("query", "version"))) as (ask, provider):
        location = ask("GET", "orders/version").headers["location"]
        assert httpx.URL(location).host == "localhost"
        assert httpx.URL(location).port != httpx.URL(provider.endpoint).port
        assert httpx.get(location).status_code == 401
        assert httpx.get(location, headers=AUTHORIZED).headers["delta-table-version"] == "6"
        ask("GET", "orders/version", follow_redirects=True)
    assert fault.authorizations == [None, AUTHORIZED["Authorization"], None]


def test_a_page_token_that_has_expired() -> None:
    with asking(fault := PageTokenExpired(times=1)) as (ask, _):
        token = end_of(ask.query("orders", maxFiles=3))["nextPageToken"]
        answers = [ask.query("orders", maxFiles=3, pageToken=token) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [400, 200]
        assert answers[0].json() == {
            "errorCode": "INVALID_PARAMETER_VALUE",
            "message": "The page token has expired. Please restart the query.",
        }
        assert fault.struck == 1


def test_an_answer_that_comes_later() -> None:
    with asking(AnswersLater(polls=2)) as (ask, provider):
        assert _kinds(ask.query("orders"))[0] == "protocol"  # nobody asked for it
        answer = ask.query("orders", f"{WITH_END};asyncquery=true", version=3, idempotencyKey="x")
        (line,) = lines_of(answer)
        assert answer.headers["delta-sharing-capabilities"] == "asyncquery=true"
        assert line["queryStatus"]["status"] == "pending"
        path = f"orders/queries/{line['queryStatus']['queryId']}"
        headers = {"delta-sharing-capabilities": WITH_END}
        polls = [ask("POST", path, json={}, headers=headers) for _ in range(3)]
        assert [lines_of(poll)[0] for poll in polls[:2]] == [line, line]
        assert polls[2].headers["delta-table-version"] == "3"
        assert len(files_of(polls[2])) == 4
        page = ask("POST", path, json={"maxFiles": 3}, headers=headers)
        assert len(files_of(page)) == 3
        rest = ask("POST", path, json={"maxFiles": 3, "pageToken": end_of(page)["nextPageToken"]}, headers=headers)
        assert len(files_of(rest)) == 1
        assert ask("POST", "orders/queries/unknown", json={}).status_code == 404
        assert provider.asked("queries") == 6
    with asking(AnswersLater(unasked=True)) as (ask, _):
        assert _kinds(ask.query("orders")) == ["queryStatus"]


# ---- the right answer, brought badly -----------------------------------------------------------------------


@pytest.mark.parametrize("on", ["query", "files"])
def test_an_answer_that_dribbles(on: str) -> None:
    with asking(Dribble(on=on, size=500, pause=0.02)) as (ask, _):
        start = time.monotonic()
        with ask.client.stream(*_request(ask, on)) as answer:
            pieces = [(time.monotonic() - start, len(piece)) for piece in answer.iter_raw()]
    assert len(pieces) > 1
    assert pieces[-1][0] - pieces[0][0] > 0.02 * (len(pieces) - 2)
    if on == "query":
        assert sum(size for _, size in pieces) > 4000


def test_silence() -> None:
    with asking(Silence(seconds=1)) as (ask, _), pytest.raises(httpx.ReadTimeout):
        ask("POST", "orders/query", json={}, timeout=0.3)


@pytest.mark.parametrize("on", ["query", "files"])
def test_a_connection_that_is_reset(on: str) -> None:
    with asking(ConnectionReset(on=on, times=1)) as (ask, _):
        request = _request(ask, on)
        broken = _read(ask, *request)
        assert isinstance(broken.error, httpx.ReadError)  # RST, not a mere end
        assert len(broken.received) > 100
        whole = _read(ask, *request)
        assert whole.error is None
        assert whole.received.startswith(broken.received[:50])
        assert len(whole.received) > len(broken.received)


def test_a_file_that_is_cut_off() -> None:
    with asking(CutOff(times=1, part=0.25)) as (ask, _):
        request = _request(ask, "files")
        broken, whole = _read(ask, *request), _read(ask, *request)
    assert isinstance(broken.error, httpx.RemoteProtocolError)
    assert int(broken.headers["content-length"]) == len(whole.received)
    assert broken.received == whole.received[: len(whole.received) // 4]


def _request(ask: Asker, on: str) -> tuple[str, str]:
    """A request for lines or for a file."""
    if on == "files":
        return "GET", _urls(ask.query("orders"))[0]
    return "POST", f"{ask.endpoint}/shares/s/schemas/d/tables/orders/query"


@dataclass
class Read:
    """What came of an answer before it ended or broke."""

    headers: httpx.Headers
    received: bytes = b""
    error: httpx.TransportError | None = None


def _read(ask: Asker, method: str, url: str) -> Read:
    with ask.client.stream(method, url) as answer:
        read = Read(answer.raise_for_status().headers)
        try:
            for piece in answer.iter_raw():
                read.received += piece
        except httpx.TransportError as error:
            read.error = error
        return read


def test_gzip(well: Asker) -> None:
    with asking(Gzip(on=("query", "listings"))) as (ask, _):
        headers = {"Accept-Encoding": "identity"}
        for answer in (
            ask("POST", "orders/query", json={}, headers=headers),
            ask.client.get(f"{ask.endpoint}/shares", headers=headers),
        ):
            assert answer.headers["content-encoding"] == "gzip"
        assert len(files_of(ask.query("orders"))) == ORDERS


# ---- lines that are not what they seem ---------------------------------------------------------------------


def test_truncated_at_the_end_of_a_line() -> None:
    with asking(TruncatedAtLineEnd(keep=5)) as (ask, _):
        answer = ask.query("orders", WITH_END)
    assert _kinds(answer) == ["protocol", "metaData", "file", "file", "file"]
    assert answer.text.endswith("\n")
    assert answer.headers["delta-sharing-capabilities"].endswith("includeendstreamaction=true")


def test_truncated_in_the_middle_of_a_line() -> None:
    with asking(TruncatedMidLine(keep=5)) as (ask, _):
        *whole, last = ask.query("orders", WITH_END).text.split("\n")
    assert [next(iter(json.loads(line))) for line in whole] == ["protocol", "metaData", "file", "file", "file"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)


@pytest.mark.parametrize(
    ("promised", "word"),
    [(True, ";includeendstreamaction=true"), (False, ";includeendstreamaction=false"), (None, "")],
)
def test_an_end_that_is_missing(promised: bool | None, word: str) -> None:
    with asking(EndMissing(promised=promised)) as (ask, _):
        answer = ask.query("orders", WITH_END)
    assert set(_kinds(answer)) == {"protocol", "metaData", "file"}
    assert answer.headers["delta-sharing-capabilities"] == f"responseformat=delta{word}"


def test_an_error_after_200() -> None:
    with asking(ErrorAtTheEnd(message="gone", status=503, times=1), ErrorAtTheEnd(message="gone")) as (ask, _):
        answers = [ask.query("orders", WITH_END) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert _kinds(answers[0]) == ["protocol", "metaData", "file", "endStreamAction"]
    assert end_of(answers[1]) == {"errorMessage": "gone"}


def test_a_page_token_that_is_empty(well: Asker) -> None:
    with asking(EmptyPageToken()) as (ask, _):
        first, second = ask.pages("orders", maxFiles=5)
        assert end_of(first)["nextPageToken"]
        assert end_of(second)["nextPageToken"] == ""
        listing = ask.client.get(f"{ask.endpoint}/shares").json()
        assert listing == {"items": [{"name": "s"}], "nextPageToken": ""}
        more = ask.client.get(f"{ask.endpoint}/shares/s/all-tables", params={"maxResults": 1}).json()
        assert more["nextPageToken"]
    _, second = well.pages("orders", maxFiles=5)
    assert "nextPageToken" not in end_of(second)


def test_listings_without_items() -> None:
    with asking(ItemsMissing()) as (ask, _):
        assert ask.client.get(f"{ask.endpoint}/shares").json() == {}


def _identity(file: Line) -> tuple[str, str, int]:
    add = file["deltaSingleAction"]["add"]
    return file["id"], add["path"], add["size"]


def test_a_file_that_comes_twice_on_two_pages() -> None:
    with asking(RepeatedFile(after=1)) as (ask, _):
        ask.query("orders")
        pages = [[_identity(f) for f in files_of(page)] for page in ask.pages("orders", maxFiles=3)]
    assert [len(page) for page in pages] == [4, 4, 3]
    (ident, url, size), (again, other_url, same_size) = pages[0][-2], pages[1][0]
    assert pages[0][-1][0] == pages[0][0][0]  # within the first page: its first file, at its end
    assert len({file[0] for page in pages for file in page}) == ORDERS
    assert (again, same_size) == (pages[0][-2][0], size) == (ident, size)
    assert other_url != url
    assert other_url.split("?")[0] == url.split("?")[0]


def test_a_file_that_comes_twice_with_other_content() -> None:
    with asking(RepeatedFile(other_content=True)) as (ask, _):
        answer = ask.query("orders", WITH_END)
        first, *_, last = (_identity(file) for file in files_of(answer))
        assert _kinds(answer)[-1] == "endStreamAction"
        assert (first[0], first[2] + 1) == (last[0], last[2])
        assert ask.client.get(last[1]).status_code == 200


def test_lines_in_any_order(well: Asker) -> None:
    with asking(ShuffledLines()) as (ask, _):
        kinds = _kinds(ask.query("orders", WITH_END))
    ordered = _kinds(well.query("orders", WITH_END))
    assert kinds != ordered
    assert sorted(kinds) == sorted(ordered)
    assert kinds[-1] == "endStreamAction"
    assert kinds.index("protocol") > 1


def test_fields_and_lines_from_the_future() -> None:
    with asking(FromTheFuture()) as (ask, _):
        lines = lines_of(ask.query("dv_basic", WITH_END))
        listing = ask.client.get(f"{ask.endpoint}/shares").json()
    assert [next(iter(line)) for line in lines[:4]] == ["advisory", "protocol", "advisory", "metaData"]
    assert next(iter(lines[-1])) == "endStreamAction"
    news = "fieldFromTheFuture"
    assert all(news in value for line in lines for kind, value in line.items() if kind in ("metaData", "file"))
    adds = [line["file"]["deltaSingleAction"]["add"] for line in lines if "file" in line]
    assert all(news in add and news not in add["partitionValues"] for add in adds)
    assert news in listing
    assert news in listing["items"][0]


@pytest.mark.parametrize("said", [True, False])
def test_parquet_although_delta_was_asked_for(said: bool) -> None:
    with asking(ParquetInstead(said=said)) as (ask, _):
        answer = ask.query("orders", WITH_END)
        with_vectors = lines_of(ask.query("dv_basic", WITH_END))
    assert all("url" in line["file"] for line in lines_of(answer)[2:-1])
    header = answer.headers.get("delta-sharing-capabilities")
    assert header == ("responseformat=parquet;includeendstreamaction=true" if said else None)
    assert with_vectors[0] == {"protocol": {"minReaderVersion": 3}}
    assert not any("deletionVector" in json.dumps(line) for line in with_vectors[2:])


def test_headers_that_are_spelt_otherwise() -> None:
    with asking(SpeltOtherwise()) as (ask, _):
        raw = dict(ask.query("orders", WITH_END).headers.raw)
    assert raw[b"DELTA-SHARING-CAPABILITIES"] == b"ResponseFormat=Delta ; IncludeEndStreamAction=True"
    assert raw[b"DELTA-TABLE-VERSION"] == b"6"


def test_versions_beyond_the_end(well: Asker) -> None:
    with asking(BeyondTheEnd()) as (ask, _):
        found = [
            {file["version"] for file in files_of(answer)}
            for answer in (
                ask.query("orders", startingVersion=1, endingVersion=2),
                ask.changes("orders", startingVersion=1, endingVersion=2),
                well.query("orders", startingVersion=1, endingVersion=2),
            )
        ]
    assert found == [{1, 2, 4, 5, 6}, {1, 2, 4, 5, 6}, {1, 2}]


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_a_clock_that_is_off(seconds: int) -> None:
    with asking(SkewedClock(seconds=seconds)) as (ask, _):
        answer = ask.query("orders", WITH_END)
        expiries = {file["expirationTimestamp"] for file in files_of(answer)}
        expected = time.time() + 3600 + seconds
        assert all(abs(expiry / 1000 - expected) < 60 for expiry in expiries)
        assert end_of(answer)["minUrlExpirationTimestamp"] in expiries
        date = time.mktime(time.strptime(answer.headers["date"], "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
        assert abs(date - time.time() - seconds) < 60
        assert ask.client.get(_urls(answer)[0]).status_code == 200


def test_a_number_of_files_that_is_not_true() -> None:
    with asking(WrongNumFiles(by=-3)) as (ask, _):
        answer = ask.query("orders")
    assert lines_of(answer)[1]["metaData"]["numFiles"] == ORDERS - 3
    assert len(files_of(answer)) == ORDERS


def test_a_version_that_is_not_true() -> None:
    with asking(WrongVersion(by=-1)) as (ask, _):
        answers = ask.query("orders"), ask("GET", "orders/version"), ask("GET", "orders/metadata")
        assert [answer.headers["delta-table-version"] for answer in answers] == ["5", "5", "5"]
        assert len(files_of(answers[0])) == ORDERS


# ---- URLs that die, files that are not those of the listing ------------------------------------------------


@pytest.mark.parametrize(
    ("store", "status", "code"),
    [("s3", 403, "AccessDenied"), ("azure", 403, "AuthenticationFailed"), ("gcs", 400, "ExpiredToken")],
)
def test_urls_that_have_expired(store: str, status: int, code: str) -> None:
    with asking(ExpiredUrls(store=store, times=2)) as (ask, _):
        urls = _urls(ask.query("orders"))
        answers = [ask.client.get(url) for url in urls[:3]]
    assert [answer.status_code for answer in answers] == [status, status, 200]
    assert f"<Code>{code}</Code>" in answers[0].text
    assert answers[0].headers["content-type"].startswith("application/xml")


def test_urls_that_die_before_their_time() -> None:
    with asking(UrlsDieEarly(seconds=0.5)) as (ask, _):
        answer = ask.query("orders")
        (url, *_) = _urls(answer)
        assert files_of(answer)[0]["expirationTimestamp"] > (time.time() + 3000) * 1000
        assert ask.client.get(url).status_code == 200
        time.sleep(0.6)
        assert ask.client.get(url).status_code == 403
        assert ask.client.get(_urls(ask.query("orders"))[0]).status_code == 200


def test_files_that_were_vacuumed() -> None:
    with asking() as (ask, _):
        name = _urls(ask.query("orders"))[0].split("?")[0].rpartition("/")[2]
    with asking(Vacuumed(file=name)) as (ask, _):
        answers = [ask.client.get(url) for url in _urls(ask.query("orders"))]
    assert sorted(answer.status_code for answer in answers) == [200] * (ORDERS - 1) + [404]
    assert any("NoSuchKey" in answer.text for answer in answers if answer.status_code == 404)


def test_the_whole_file_for_a_range(well: Asker) -> None:
    part = {"Range": "bytes=10-19"}
    with asking(WholeFileAlways()) as (ask, _):
        answer = ask.client.get(_urls(ask.query("orders"))[0], headers=part)
    assert answer.status_code == 200
    assert answer.content[:4] == answer.content[-4:] == b"PAR1"
    expected = well.client.get(_urls(well.query("orders"))[0], headers=part)
    assert (expected.status_code, expected.content) == (206, answer.content[10:20])
    assert expected.headers["content-range"] == f"bytes 10-19/{len(answer.content)}"


@pytest.mark.parametrize("by", [-1, 5])
def test_a_file_of_another_size(by: int) -> None:
    with asking(AnotherSize(by=by)) as (ask, _):
        (file, *_) = files_of(ask.query("orders"))
        add = file["deltaSingleAction"]["add"]
        answer = ask.client.get(add["path"])
    assert len(answer.content) == int(answer.headers["content-length"]) == add["size"] + by


def test_a_flipped_byte_in_a_deletion_vector(well: Asker) -> None:
    def contents(ask: Asker, vectors: bool) -> list[bytes]:
        urls = sorted(_urls(ask.query("dv_basic"), vectors), key=lambda url: url.split("?")[0])
        return [ask.client.get(url).raise_for_status().content for url in urls]

    with asking(FlippedByte()) as (ask, _):
        flipped, right = contents(ask, True), contents(well, True)
        assert contents(ask, False) == contents(well, False)
    assert right
    for one, other in zip(flipped, right, strict=True):
        assert [i - len(one) for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b] == [-6]


def test_a_file_that_is_overwritten_while_it_is_read() -> None:
    with asking(Overwritten()) as (ask, _):
        url = _urls(ask.query("orders"))[0]
        broken = _read(ask, "GET", url)
        etag, size, received = broken.headers["etag"], int(broken.headers["content-length"]), broken.received
        assert isinstance(broken.error, httpx.RemoteProtocolError)
        assert 0 < len(received) < size
        rest = {"Range": f"bytes={len(received)}-"}
        resumed = ask.client.get(url, headers=rest)
        assert (resumed.status_code, len(resumed.content)) == (206, size - len(received))
        assert resumed.headers["etag"] != etag
        assert ask.client.get(url, headers={**rest, "If-Match": etag}).status_code == 412
        assert ask.client.get(url, headers={**rest, "If-Range": etag}).status_code == 200
        whole = ask.client.get(url)
    assert (whole.content[:4], whole.content[-4:], len(whole.content)) == (b"PAR1", b"PAR1", size)
    assert received + resumed.content == whole.content  # of which the second half is not that of the listing


def test_every_fault_is_proven_here_and_says_why() -> None:
    faults = {name: found for name, found in vars(misbehaviour).items() if _is_fault(found)}
    assert len(faults) == 36
    source = inspect.getsource(inspect.getmodule(test_every_fault_is_proven_here_and_says_why) or misbehaviour)
    for name, fault in faults.items():
        assert f"{name}(" in source, f"no test makes a {name}"
        assert fault.__doc__, f"{name} does not say why it exists"
        assert name in misbehaviour.__all__


def _is_fault(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, Fault) and found is not Fault
