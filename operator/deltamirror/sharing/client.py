"""The REST calls of the protocol, with deadlines, retries and errors that say what to do."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx
import msgspec

from deltamirror import __version__
from deltamirror.errors import Kind
from deltamirror.sharing.actions import SharedFile, SharedSnapshot, TableMetadata, TableName, TableProtocol
from deltamirror.sharing.errors import (
    AnswerBroken,
    CredentialsRejected,
    NotShared,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
    SharingError,
)
from deltamirror.sharing.lines import EndOfStream, parse
from deltamirror.sharing.profile import Profile

T = TypeVar("T")

_TIMEOUT = httpx.Timeout(connect=5, read=120, write=30, pool=30)
_ATTEMPTS = 4
_LONGEST_WAIT = 20.0


class SharingClient:
    """Speaks to one provider. Thread-safe; close it when done."""

    def __init__(self, profile: Profile, reader_features: Iterable[str] = ()) -> None:
        self._profile = profile
        self._http = httpx.Client(timeout=_TIMEOUT, headers={"User-Agent": f"deltamirror/{__version__}"})
        # Servers lower-case the header and split it without trimming: no spaces.
        features = ",".join(sorted(name.lower() for name in reader_features))
        self._capabilities = f"responseformat=delta;readerfeatures={features};includeendstreamaction=true"
        self.requests = 0

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> SharingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def version(self, table: TableName) -> int:
        """The newest version of a table: the cheapest question there is."""
        return self._retried(lambda: self._version(table))

    def snapshot(self, table: TableName, version: int | None = None) -> SharedSnapshot:
        """Every file of a table at a version, or now."""
        return self._retried(lambda: self._snapshot(table, version))

    def _version(self, table: TableName) -> int:
        with self._open("GET", f"{table.path}/version", table) as response:
            return _table_version(response)

    def _snapshot(self, table: TableName, version: int | None) -> SharedSnapshot:
        body: dict[str, object] = {} if version is None else {"version": version}
        with self._open("POST", f"{table.path}/query", table, body) as response:
            capabilities = _capabilities(response)
            # A server from before the header answers in parquet and does not send it back.
            response_format = capabilities.get("responseformat", "parquet")
            protocol: TableProtocol | None = None
            metadata: TableMetadata | None = None
            end: EndOfStream | None = None
            files: dict[str, SharedFile] = {}
            for action in parse(_body(response), response_format):
                match action:
                    case SharedFile():
                        _keep(files, action)
                    case TableProtocol():
                        protocol = action
                    case TableMetadata():
                        metadata = action
                    case EndOfStream():
                        end = action
            if end is None and capabilities.get("includeendstreamaction") == "true":
                raise AnswerBroken(f"the list of files of {table} was cut off: its end mark is missing")
            if end is not None and end.error_message:
                raise ProviderFailed(f"the provider gave up while listing {table}: {end.error_message}")
            if protocol is None or metadata is None:
                raise AnswerBroken(f"the provider's answer for {table} has no protocol or no metadata")
            if metadata.num_files is not None and metadata.num_files != len(files):
                raise AnswerBroken(
                    f"the provider announced {metadata.num_files} files of {table} and sent {len(files)}"
                )
            echoed = response.headers.get("fileidhash")
            return SharedSnapshot(
                _table_version(response), echoed or response_format, protocol, metadata, list(files.values())
            )

    def _open(self, method: str, path: str, table: TableName, body: dict[str, object] | None = None) -> _Response:
        self._profile.check_expiry()
        self.requests += 1
        headers = {
            "Authorization": f"Bearer {self._profile.bearer_token}",
            "delta-sharing-capabilities": self._capabilities,
            "fileidhash": "delta",
        }
        request = self._http.build_request(method, self._profile.endpoint + path, headers=headers, json=body)
        try:
            response = self._http.send(request, stream=True)
        except httpx.TransportError as error:
            raise _unreachable(self._profile, error) from None
        if response.status_code != 200:
            try:
                raise _refusal(response, table)
            finally:
                response.close()
        return _Response(response)

    def _retried(self, call: Callable[[], T]) -> T:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return call()
            except SharingError as error:
                if error.kind is Kind.STALLING or attempt == _ATTEMPTS:
                    raise
                wait = random.uniform(0, min(_LONGEST_WAIT, 0.5 * 2**attempt))
                if isinstance(error, RateLimited) and error.retry_after is not None:
                    if error.retry_after > _LONGEST_WAIT:
                        raise
                    wait = error.retry_after
                time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")


class _Response:
    """Closes the stream of a response when the caller is done with it, read or not."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def __enter__(self) -> httpx.Response:
        return self._response

    def __exit__(self, *_: object) -> None:
        self._response.close()


def _body(response: httpx.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes()
    except httpx.HTTPError as error:
        raise AnswerBroken(f"the provider's answer broke off: {type(error).__name__}") from None


def _keep(files: dict[str, SharedFile], file: SharedFile) -> None:
    """A file may be listed twice with two URLs; anything else with the same id is a contradiction."""
    known = files.setdefault(file.id, file)
    if known is not file and _without_urls(known) != _without_urls(file):
        raise AnswerBroken(f"the provider listed the file {file.id} twice with different contents")


def _without_urls(file: SharedFile) -> SharedFile:
    vector = file.deletion_vector
    if vector is not None and vector.storage_type == "p":
        vector = msgspec.structs.replace(vector, path_or_inline=vector.path_or_inline.split("?")[0])
    return msgspec.structs.replace(file, url=file.url.split("?")[0], deletion_vector=vector, expires_at=None)


def _table_version(response: httpx.Response) -> int:
    value = response.headers.get("delta-table-version", "")
    if not value.isdigit():
        raise AnswerBroken(
            "the answer has no Delta-Table-Version header: is the endpoint of the profile a Delta Sharing server?"
        )
    return int(value)


def _capabilities(response: httpx.Response) -> dict[str, str]:
    items = (item.partition("=") for item in response.headers.get("delta-sharing-capabilities", "").lower().split(";"))
    return {name.strip(): value.strip() for name, _, value in items if value}


def _unreachable(profile: Profile, error: httpx.TransportError) -> SharingError:
    host = httpx.URL(profile.endpoint).host
    what = str(error) or type(error).__name__
    if "CERTIFICATE" in what.upper() or "SSL" in what.upper():
        return RequestRefused(f"the TLS certificate of the provider at {host} is not trusted: {what}")
    return ProviderUnreachable(f"the provider at {host} does not answer: {what}")


def _refusal(response: httpx.Response, table: TableName) -> SharingError:
    try:
        body = response.read()
    except httpx.HTTPError:
        body = b""
    code, message = _error_body(body)
    said = f': "{message}"' if message else ""
    status = response.status_code
    if status in (401, 403):
        return CredentialsRejected(
            f"the provider rejects the token for {table} ({status}){said}: ask it for a new profile", error_code=code
        )
    if status == 404:
        return NotShared(
            f"{table} is not shared with this recipient{said}: `deltamirror list` shows what is", error_code=code
        )
    if status == 429:
        return RateLimited(
            "the provider limits our requests (429)", retry_after=_retry_after(response), error_code=code
        )
    if status >= 500:
        return ProviderFailed(f"the provider failed with {status} on {table}{said}", error_code=code)
    if 300 <= status < 400:
        return RequestRefused(f"the provider redirects {table} elsewhere ({status}): check the endpoint of the profile")
    return RequestRefused(f"the provider refuses {table} ({status}){said}", error_code=code)


def _error_body(body: bytes) -> tuple[str | None, str]:
    try:
        content = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return None, ""
    if not isinstance(content, dict):
        return None, ""
    code = content.get("errorCode")
    return (code if isinstance(code, str) else None), str(content.get("message") or "")[:500]


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
