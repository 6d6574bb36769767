"""One request to a provider: deadlines, retries with full jitter, and errors that say what to do.

What may heal is tried again: 429, 5xx, dropped connections. What cannot is not. A 500 is both: providers send it for passing
failures and for tables that they will never be able to serve, so it gets few tries and then counts as permanent.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx
import msgspec

from deltamirror import __version__
from deltamirror.errors import Kind
from deltamirror.sharing.auth import authorization
from deltamirror.sharing.errors import (
    AnswerBroken,
    NotASharingServer,
    NotUnderstood,
    ProviderBroken,
    ProviderFailed,
    ProviderUnreachable,
    RequestRefused,
    SharingError,
)
from deltamirror.sharing.gate import gate
from deltamirror.sharing.network import Route
from deltamirror.sharing.patience import Patience
from deltamirror.sharing.profile import Profile
from deltamirror.sharing.refusals import NOT_A_SERVER, Refusal
from deltamirror.sharing.times import ServerClock, retry_after
from deltamirror.sharing.unreachable import no_answer, origin
from deltamirror.sharing.words import plain

T = TypeVar("T")

ATTEMPTS = 5
ATTEMPTS_AT_500 = 3
BACKOFF = 0.5
LONGEST_WAIT = 20.0
CONNECT_SECONDS, READ_SECONDS = 5.0, 120.0
CALL_SECONDS, LISTING_SECONDS = 120.0, 3600.0
REDIRECTS = 3
LONGEST_ERROR, LONGEST_JSON = 100_000, 64 * 1024 * 1024


class Transport:
    """The connection to one provider. Thread-safe."""

    def __init__(self, profile: Profile, route: Route | None = None) -> None:
        self._profile = profile
        self._route = route or Route.to("API")
        self._authorization = authorization(profile, self._route)
        self.host = httpx.URL(profile.endpoint).host
        self._gate = gate(origin(profile.endpoint))
        self._http = self._route.http_client(headers={"User-Agent": f"deltamirror/{__version__}"})
        self._lock = threading.Lock()
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
                    raise ProviderBroken(
                        f"{error}, each of {failed_500} times", error_code=error.error_code, status=500
                    ) from None
                wait = self._wait_before_retry(error, attempt)
                if wait is None or time.monotonic() + wait > deadline:
                    raise
                time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _wait_before_retry(self, error: SharingError, attempt: int) -> float | None:
        if error.kind is Kind.STALLING or attempt == ATTEMPTS:
            return None
        asked = self._gate.opens_in if isinstance(error, ProviderUnreachable) else error.retry_after
        if asked:
            return asked + random.uniform(0, BACKOFF) if asked <= LONGEST_WAIT else None
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
        tokens = [str(v) for sent in (params, body) for k, v in (sent or {}).items() if k.endswith("Token")]
        answer = self._send(method, path, params, body, headers or {}, what, tokens, deadline)
        with contextlib.closing(answer):
            if answer.status != 200:
                raise self._refusal(answer)
            yield answer

    def _send(
        self,
        method: str,
        path: str,
        params: dict[str, Any] | None,
        body: dict[str, Any] | None,
        headers: dict[str, str],
        what: str,
        tokens: list[str],
        deadline: float,
    ) -> Response:
        """Follows redirects that stay with the provider, and renews a token that it has revoked, once."""
        url = self.endpoint + path
        redirects = renewals = 0
        patience = Patience(deadline, READ_SECONDS)
        timeouts = {"connect": CONNECT_SECONDS, "read": patience, "write": 30.0, "pool": CONNECT_SECONDS}
        while True:
            header = self._authorization.header()
            request = self._http.build_request(
                method,
                url,
                params=params,
                json=body,
                headers={**headers, "Authorization": header},
                extensions={"timeout": timeouts},
            )
            response = self._once(request, deadline)
            if response.is_redirect and redirects < REDIRECTS:
                response.close()
                redirects += 1
                url, params = self._same_host(response), None
            elif response.status_code == 401 and not renewals and self._authorization.renewable(header):
                response.close()
                renewals += 1
            else:
                return Response(response, what, self.host, [header.partition(" ")[2], *tokens])

    def _once(self, request: httpx.Request, deadline: float) -> httpx.Response:
        with self._gate.request(deadline):
            with self._lock:
                self.requests += 1
            try:
                response = self._http.send(request, stream=True)
            except httpx.HTTPError as error:
                raise no_answer(error, f"the provider at {self.host}", self._gate) from None
            self._gate.answered()
            return response

    def _same_host(self, response: httpx.Response) -> str:
        """A token goes nowhere but to the host that it is for."""
        target = response.next_request.url if response.next_request else httpx.URL("")
        if origin(str(target)) != origin(self.endpoint):
            where = plain(origin(str(target)), 100) if target.host else "nowhere"
            raise RequestRefused(
                f"the provider at {self.host} redirects to {where}, which is not sent our token:"
                " ask the provider for a profile with the new endpoint"
            )
        return str(target)

    def _refusal(self, answer: Response) -> SharingError:
        if 300 <= answer.status < 400:
            return RequestRefused(
                f"the provider at {self.host} redirects in circles: check the endpoint of the profile",
                status=answer.status,
            )
        error = answer.refusal()
        if error.retry_after is not None and error.kind is not Kind.STALLING:
            self._gate.limit(error.retry_after)
        return error


class Response:
    """An answer whose body is still to be read."""

    def __init__(self, response: httpx.Response, what: str, host: str, secrets: list[str]) -> None:
        self._response = response
        self._what = what
        self._host = host
        self._secrets = secrets
        self.status = response.status_code
        self.clock = ServerClock.of(response.headers)

    def close(self) -> None:
        self._response.close()

    @property
    def headers(self) -> httpx.Headers:
        return self._response.headers

    @property
    def table_version(self) -> int:
        value = self.headers.get("delta-table-version", "").strip()
        if not re.fullmatch(r"[0-9]{1,18}", value):
            self._check_content_type()
            raise AnswerBroken(
                f"the answer about {self._what} has no Delta-Table-Version header:"
                " is the endpoint of the profile a Delta Sharing server?"
            )
        return int(value)

    @property
    def capabilities(self) -> dict[str, str]:
        items = (i.partition("=") for i in self.headers.get("delta-sharing-capabilities", "").lower().split(";"))
        return {name.strip(): value.strip() for name, _, value in items if value}

    @property
    def response_format(self) -> str:
        """A server from before the header answers in parquet, and does not send it back."""
        name = self.capabilities.get("responseformat", "parquet")
        if name not in ("delta", "parquet"):
            raise NotUnderstood(f"the provider answered about {self._what} in the format {plain(name, 40)!r}")
        return name

    @property
    def ends_with_mark(self) -> bool:
        """Whether the server promises an end mark."""
        return self.capabilities.get("includeendstreamaction") == "true"

    def chunks(self) -> Iterator[bytes]:
        self._check_content_type()
        try:
            yield from self._response.iter_bytes()
        except httpx.TimeoutException:
            raise AnswerBroken(f"the provider's answer about {self._what} was not complete in time") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise AnswerBroken(f"the provider's answer about {self._what} broke off: {type(error).__name__}") from None

    def drain(self) -> None:
        """Reads a body that nobody needs: a connection whose answer was left half-read is of no further use."""
        self._body(LONGEST_ERROR)

    def json(self, kind: type[T]) -> T:
        """The whole body as a typed value."""
        body = self._body(LONGEST_JSON)
        if len(body) > LONGEST_JSON:
            raise AnswerBroken(f"the provider's answer about {self._what} has no end")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # msgspec names fields and types, never values. The others may show bytes.
            why = str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__
            raise AnswerBroken(
                f"the provider's answer about {self._what} is not what the protocol says: {why}"
            ) from None

    def refusal(self) -> SharingError:
        """What an answer that is an error means."""
        try:
            body = self._body(LONGEST_ERROR)
        except AnswerBroken:
            body = b""
        refusal = Refusal(
            self.status,
            body,
            content_type=self.headers.get("content-type", "").lower(),
            retry_after=retry_after(self.headers),
        )
        return refusal.error(self._what, self._host, self._secrets)

    def gave_up(self, message: str, status: int | None) -> SharingError:
        """What an error means that came after the answer had begun."""
        return Refusal(status, message=message).error(self._what, self._host, self._secrets)

    def _body(self, longest: int) -> bytes:
        parts, length = [], 0
        for chunk in self.chunks():
            parts.append(chunk)
            length += len(chunk)
            if length > longest:
                break
        return b"".join(parts)

    def _check_content_type(self) -> None:
        if self.status == 200 and "html" in self.headers.get("content-type", "").lower():
            raise NotASharingServer(NOT_A_SERVER.format(host=self._host))
