"""One request to a provider: deadlines, retries with full jitter, and errors that say what to do.

What may heal is tried again: 429, 5xx, dropped connections. What cannot is not. A 500 is both: providers send it for passing
failures and for tables that they will never be able to serve, so it gets few tries and then counts as permanent.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import msgspec

from deltamirror import __version__
from deltamirror.errors import Kind
from deltamirror.sharing.auth import authorization
from deltamirror.sharing.errors import (
    AnswerBroken,
    CredentialsRejected,
    HistoryNotShared,
    NotShared,
    ProviderBroken,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
    SharingError,
)
from deltamirror.sharing.gate import gate
from deltamirror.sharing.network import Route
from deltamirror.sharing.profile import Profile

T = TypeVar("T")

ATTEMPTS = 5
ATTEMPTS_AT_500 = 3
BACKOFF = 0.5
LONGEST_WAIT = 20.0
CONNECT_SECONDS, READ_SECONDS = 5.0, 120.0
CALL_SECONDS, LISTING_SECONDS = 120.0, 3600.0
REDIRECTS = 3


class Transport:
    """The connection to one provider. Thread-safe."""

    def __init__(self, profile: Profile, route: Route | None = None) -> None:
        self._profile = profile
        self._route = route or Route.to("API")
        self._authorization = authorization(profile, self._route)
        url = httpx.URL(profile.endpoint)
        self.host = url.host
        self._gate = gate(f"{url.scheme}://{url.netloc.decode()}")
        timeout = httpx.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS, write=30, pool=60)
        self._http = httpx.Client(
            timeout=timeout, headers={"User-Agent": f"deltamirror/{__version__}"}, **self._route.httpx_arguments()
        )
        self.requests = 0

    @property
    def endpoint(self) -> str:
        return self._profile.endpoint

    def close(self) -> None:
        self._http.close()

    def retried(self, call: Callable[[float], T], seconds: float = CALL_SECONDS) -> T:
        """Makes a call, with its whole answer, until it succeeds or trying makes no sense any more.

        The call is given the time (monotonic) by which it has to be over.
        """
        deadline = time.monotonic() + seconds
        failed_500 = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return call(deadline)
            except SharingError as error:
                failed_500 += isinstance(error, ProviderFailed) and error.status == 500
                if failed_500 >= ATTEMPTS_AT_500:
                    raise ProviderBroken(f"{error}, each of {failed_500} times", error_code=error.error_code) from None
                wait = self._wait_before_retry(error, attempt)
                if wait is None or time.monotonic() + wait > deadline:
                    raise
                time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _wait_before_retry(self, error: SharingError, attempt: int) -> float | None:
        if error.kind is Kind.STALLING or attempt == ATTEMPTS:
            return None
        if isinstance(error, RateLimited) and error.retry_after is not None:
            return error.retry_after if error.retry_after <= LONGEST_WAIT else None
        if isinstance(error, ProviderUnreachable):
            opens = self._gate.opens_in
            return opens if opens <= LONGEST_WAIT else None
        return random.uniform(0, min(LONGEST_WAIT, BACKOFF * 2**attempt))

    @contextlib.contextmanager
    def open(
        self,
        method: str,
        path: str,
        what: str,
        *,
        deadline: float,
        params: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Iterator[Response]:
        """One attempt at one request. `what` is what a person would say is being asked for."""
        self._profile.check_expiry()
        with self._gate.request():
            response = self._send(method, self.endpoint + path, params, body, headers or {})
            try:
                if response.status_code != 200:
                    raise self._refusal(response, what)
                yield Response(response, deadline, what)
            finally:
                response.close()

    def _send(
        self, method: str, url: str, params: dict[str, Any] | None, body: dict[str, Any] | None, headers: dict[str, str]
    ) -> httpx.Response:
        for _ in range(REDIRECTS):
            self.requests += 1
            authorized = {**headers, "Authorization": self._authorization.header()}
            request = self._http.build_request(method, url, params=params, json=body, headers=authorized)
            try:
                response = self._http.send(request, stream=True)
            except httpx.TransportError as error:
                raise self._unreachable(error) from None
            self._gate.answered()
            if not response.is_redirect:
                return response
            response.close()
            url = self._same_host(response)
            params = None
        raise RequestRefused(f"the provider at {self.host} redirects in circles: check the endpoint of the profile")

    def _same_host(self, response: httpx.Response) -> str:
        """A token goes nowhere but to the host that it is for."""
        target = response.next_request.url if response.next_request else httpx.URL("")
        here = httpx.URL(self.endpoint)
        if (target.scheme, target.host, target.port) != (here.scheme, here.host, here.port):
            raise RequestRefused(
                f"the provider at {self.host} redirects to {target.host or 'nowhere'}, which is not sent our token:"
                " ask the provider for a profile with the new endpoint"
            )
        return str(target)

    def _unreachable(self, error: httpx.TransportError) -> SharingError:
        what = str(error) or type(error).__name__
        if "CERTIFICATE" in what.upper() or "SSL" in what.upper():
            return RequestRefused(
                f"the TLS certificate of the provider at {self.host} is not trusted ({what}):"
                " set DELTAMIRROR_API_CA_BUNDLE if it is signed by an authority of your own"
            )
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return RequestRefused(f"the provider at {self.host} cannot be asked: {what}")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            self._gate.silent()
        return ProviderUnreachable(f"the provider at {self.host} does not answer: {what}")

    def _refusal(self, response: httpx.Response, what: str) -> SharingError:
        try:
            body = response.read()[:100_000]
        except httpx.HTTPError:
            body = b""
        code, message = error_body(body)
        said = f': "{message}"' if message else ""
        status = response.status_code
        if status == 401 and self._authorization.rejected():
            return ProviderFailed(f"the provider rejects a token for {what} that it gave us before", status=status)
        if status in (401, 403):
            return CredentialsRejected(
                f"the provider rejects the token for {what} ({status}){said}: ask it for a new profile", error_code=code
            )
        if status == 404:
            return NotShared(
                f"{what} is not shared with this recipient{said}: `deltamirror list` shows what is", error_code=code
            )
        if status == 429:
            retry_after = _retry_after(response)
            if retry_after is not None:
                self._gate.limit(retry_after)
            return RateLimited(
                f"the provider at {self.host} limits our requests (429)", retry_after=retry_after, error_code=code
            )
        if status >= 500:
            return ProviderFailed(f"the provider failed with {status} on {what}{said}", error_code=code, status=status)
        text = f"the provider refuses {what} ({status}){said}"
        if code == "INVALID_PARAMETER_VALUE" and _about_history(message):
            return HistoryNotShared(text, error_code=code)
        return RequestRefused(text, error_code=code)


class Response:
    """An answer with status 200 whose body is still to be read."""

    def __init__(self, response: httpx.Response, deadline: float, what: str) -> None:
        self._response = response
        self._deadline = deadline
        self._what = what

    @property
    def headers(self) -> httpx.Headers:
        return self._response.headers

    @property
    def table_version(self) -> int:
        value = self.headers.get("delta-table-version", "")
        if not value.isdigit():
            raise AnswerBroken(
                "the answer has no Delta-Table-Version header: is the endpoint of the profile a Delta Sharing server?"
            )
        return int(value)

    @property
    def capabilities(self) -> dict[str, str]:
        items = (i.partition("=") for i in self.headers.get("delta-sharing-capabilities", "").lower().split(";"))
        return {name.strip(): value.strip() for name, _, value in items if value}

    @property
    def clock_skew(self) -> float:
        """Seconds that the server's clock is ahead of ours, as far as its Date header tells."""
        try:
            return parsedate_to_datetime(self.headers.get("date", "")).timestamp() - time.time()
        except (TypeError, ValueError):
            return 0.0

    def chunks(self) -> Iterator[bytes]:
        try:
            for chunk in self._response.iter_bytes():
                yield chunk
                if time.monotonic() > self._deadline:
                    raise AnswerBroken(f"the provider took too long to answer about {self._what}")
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise AnswerBroken(f"the provider's answer about {self._what} broke off: {type(error).__name__}") from None

    def json(self) -> Any:
        content_type = self.headers.get("content-type", "")
        try:
            return msgspec.json.decode(b"".join(self.chunks()))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise AnswerBroken(
                f"the answer about {self._what} is {content_type or 'something'}, not JSON: is the endpoint of the profile a Delta Sharing server?"
            ) from None


def error_body(body: bytes) -> tuple[str | None, str]:
    """errorCode and message of an error answer; hosted servers put a finer code into `details`."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None, ""
    if not isinstance(content, dict):
        return None, ""
    code = content.get("errorCode") or content.get("error_code")
    for detail in content.get("details") or []:
        metadata = detail.get("metadata") if isinstance(detail, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("dsError"), str):
            code = metadata["dsError"]
    return (code if isinstance(code, str) else None), str(content.get("message") or "")[:500]


def _about_history(message: str) -> bool:
    """Servers have no code of its own for it; the reference server has these sentences."""
    lowered = message.lower()
    return "history sharing is not enabled" in lowered or "cdf is not enabled on table" in lowered


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "").strip()
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
