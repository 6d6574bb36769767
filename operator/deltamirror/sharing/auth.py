"""Who we are, as an Authorization header. OAuth tokens are fetched once for all callers and renewed before they end."""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import threading
import time
import uuid
from typing import Any, Protocol

import httpx
import jwt
import msgspec
from oauthlib.oauth2 import BackendApplicationClient, OAuth2Error

from deltamirror.errors import Kind
from deltamirror.sharing.errors import (
    CredentialsRejected,
    ProfileInvalid,
    ProviderFailed,
    RateLimited,
    SharingError,
)
from deltamirror.sharing.gate import gate
from deltamirror.sharing.network import Route
from deltamirror.sharing.patience import Patience
from deltamirror.sharing.profile import Basic, BearerToken, ClientCredentials, PrivateKeyJwt, Profile, sendable
from deltamirror.sharing.times import retry_after
from deltamirror.sharing.unreachable import no_answer, origin
from deltamirror.sharing.words import plain

RENEW_BEFORE = 600.0
"""Seconds before its end at which a token is renewed; half its life, if that is shorter."""
RENEW_AGAIN = 30.0
"""Seconds after which a renewal that failed is tried again, while the old token still serves."""
JUST_FETCHED = 5.0
TOKEN_SECONDS = 30.0
LONGEST_ANSWER = 1024 * 1024
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Authorization(Protocol):
    def header(self) -> str:
        """The value of the Authorization header for a request that is about to be sent."""
        ...

    def renewable(self, header: str) -> bool:
        """The provider answered 401 to this header. True if another try may help, with the header that there is then."""
        ...


def authorization(profile: Profile, route: Route) -> Authorization:
    match profile.credential:
        case BearerToken(token):
            return _Static(f"Bearer {token}")
        case Basic(username, password):
            return _Static("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())
        case credential:
            return _oauth(credential, route)


class _Static:
    def __init__(self, header: str) -> None:
        self._header = header

    def header(self) -> str:
        return self._header

    def renewable(self, header: str) -> bool:
        return False


@functools.lru_cache(maxsize=1024)
def _oauth(credential: ClientCredentials | PrivateKeyJwt, route: Route) -> _OAuth:
    """One per credential, for every client of the process: a token serves all tables of a provider."""
    return _OAuth(credential, route)


class _OAuth:
    """Exchanges a client secret or a signed assertion for access tokens."""

    def __init__(self, credential: ClientCredentials | PrivateKeyJwt, route: Route) -> None:
        self._credential = credential
        self._route = route
        self._host = httpx.URL(credential.token_endpoint).host
        self._gate = gate(origin(credential.token_endpoint))
        self._lock = threading.Lock()
        self._token = ""
        self._fetched_at = self._renew_at = self._ends_at = 0.0
        self._failure: SharingError | None = None
        self._failed_at = 0.0

    def header(self) -> str:
        arrived = time.monotonic()
        with self._lock:  # whoever comes while a token is being fetched waits for that one, or for its failure
            if time.monotonic() >= self._renew_at:
                if self._failure is not None and self._failed_at >= arrived:
                    raise copy.copy(self._failure)
                self._renew()
            return f"Bearer {self._token}"

    def renewable(self, header: str) -> bool:
        """A token may be revoked before its time; one that was just fetched and is rejected will not get better."""
        with self._lock:
            if header != f"Bearer {self._token}":
                return True  # somebody else has renewed it already
            old = time.monotonic() - self._fetched_at > JUST_FETCHED
            if old:
                self._renew_at = self._ends_at = 0.0
            return old

    def _renew(self) -> None:
        try:
            self._token, lifetime = self._fetch()
        except SharingError as error:
            now = time.monotonic()
            if error.kind is not Kind.STALLING and now < self._ends_at:
                self._renew_at = now + RENEW_AGAIN
                return
            self._failure, self._failed_at = error, now
            raise
        self._fetched_at = time.monotonic()
        self._ends_at = self._fetched_at + lifetime
        self._renew_at = self._fetched_at + max(lifetime - RENEW_BEFORE, lifetime / 2)

    def _fetch(self) -> tuple[str, float]:
        """A token and the seconds for which it is good."""
        credential = self._credential
        client = BackendApplicationClient(credential.client_id)
        auth: httpx.Auth | None = None
        if isinstance(credential, ClientCredentials):
            auth = httpx.BasicAuth(credential.client_id, credential.client_secret)
            form = client.prepare_request_body(scope=credential.scope)
        else:
            client.grant_type = _JWT_BEARER
            form = client.prepare_request_body(assertion=_assertion(credential))
        response, body = self._post(form, auth)
        if response.status_code == 429:
            raise RateLimited(
                f"the token endpoint at {self._host} limits our requests (429)",
                retry_after=retry_after(response.headers),
                status=429,
            )
        if response.status_code >= 500:
            raise ProviderFailed(
                f"the token endpoint at {self._host} failed with {response.status_code}",
                status=response.status_code,
                retry_after=retry_after(response.headers),
            )
        try:
            answer = msgspec.json.decode(body, type=dict[str, Any])
            token = client.parse_request_body_response(body.decode())
            lifetime = float(answer.get("expires_in") or 3600)  # some endpoints send it as a text
            if not sendable(token["access_token"]):
                raise ValueError
        except (OAuth2Error, msgspec.MsgspecError, RecursionError, ValueError, TypeError, Warning) as error:
            what = getattr(error, "error", None) or f"status {response.status_code}"
            raise CredentialsRejected(
                f"the token endpoint at {self._host} gives no token ({plain(what, 80)}): ask the provider for a new profile",
                error_code=plain(what, 80),
                status=response.status_code,
            ) from None
        return token["access_token"], lifetime

    def _post(self, form: str, auth: httpx.Auth | None) -> tuple[httpx.Response, bytes]:
        deadline = time.monotonic() + TOKEN_SECONDS
        patience = Patience(deadline, TOKEN_SECONDS)
        timeouts = {"connect": 5.0, "read": patience, "write": 10.0, "pool": 10.0}
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        body = b""
        with self._route.http_client() as http, self._gate.request(deadline):
            request = http.build_request(
                "POST",
                self._credential.token_endpoint,
                content=form,
                headers=headers,
                extensions={"timeout": timeouts},
            )
            try:
                response = http.send(request, auth=auth, stream=True)
                with contextlib.closing(response):
                    for chunk in response.iter_bytes():
                        body += chunk
                        if len(body) > LONGEST_ANSWER:
                            break
            except httpx.HTTPError as error:
                raise no_answer(error, f"the token endpoint at {self._host}", self._gate) from None
            self._gate.answered()
            return response, body


def _assertion(credential: PrivateKeyJwt) -> str:
    """A token of our own about ourselves, which the token endpoint exchanges for one of its own."""
    now = int(time.time())
    claims: dict[str, object] = {
        "aud": credential.issuer,
        "iss": credential.client_id,
        "iat": now,
        "exp": now + 120,
        "jti": str(uuid.uuid4()),
    }
    if credential.scope:
        claims["scope"] = credential.scope
    if credential.audience:
        claims["resource"] = credential.audience
    headers = {"kid": credential.key_id} if credential.key_id else None
    try:
        return jwt.encode(claims, credential.private_key, algorithm=credential.algorithm, headers=headers)
    except Exception:  # whatever a library of cryptography makes of a key that is none: it may quote the key
        raise ProfileInvalid(
            f"the private key of the profile cannot sign with {plain(credential.algorithm, 20)}"
        ) from None
