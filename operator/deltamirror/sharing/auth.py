"""Who we are, as an Authorization header. OAuth tokens are fetched once for all callers and renewed before they end."""

from __future__ import annotations

import base64
import functools
import threading
import time
import uuid
from typing import Protocol

import httpx
import jwt
from oauthlib.oauth2 import BackendApplicationClient, OAuth2Error

from deltamirror.sharing.errors import CredentialsRejected, ProfileInvalid, ProviderFailed, ProviderUnreachable
from deltamirror.sharing.network import Route
from deltamirror.sharing.profile import Basic, BearerToken, ClientCredentials, PrivateKeyJwt, Profile

RENEW_BEFORE = 600.0
"""Seconds before its end at which a token is renewed; half its life, if that is shorter."""
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Authorization(Protocol):
    def header(self) -> str:
        """The value of the Authorization header for a request that is about to be sent."""
        ...

    def rejected(self) -> bool:
        """The provider answered 401. True if another try with a new token may help."""
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

    def rejected(self) -> bool:
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
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0
        self._fetched_at = 0.0

    def header(self) -> str:
        with self._lock:  # whoever comes while a token is being fetched waits for that one
            if time.monotonic() >= self._renew_at:
                self._fetch()
            return f"Bearer {self._token}"

    def rejected(self) -> bool:
        """A token may be revoked before its time; one that was just fetched and is rejected will not get better."""
        with self._lock:
            old = time.monotonic() - self._fetched_at > 5
            if old:
                self._renew_at = 0.0
            return old

    def _fetch(self) -> None:
        credential = self._credential
        where = httpx.URL(credential.token_endpoint).host
        client = BackendApplicationClient(credential.client_id, scope=credential.scope)
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if isinstance(credential, ClientCredentials):
            secret = httpx.BasicAuth(credential.client_id, credential.client_secret)
            request = {"auth": secret, "content": client.prepare_request_body(scope=credential.scope)}
        else:
            client.grant_type = _JWT_BEARER
            request = {"auth": None, "content": client.prepare_request_body(assertion=_assertion(credential))}
        try:
            with httpx.Client(timeout=30, **self._route.httpx_arguments()) as http:
                response = http.post(credential.token_endpoint, headers=headers, **request)
        except httpx.TransportError as error:
            raise ProviderUnreachable(
                f"the token endpoint at {where} does not answer: {type(error).__name__}"
            ) from None
        if response.status_code >= 500:
            raise ProviderFailed(
                f"the token endpoint at {where} failed with {response.status_code}", status=response.status_code
            )
        try:
            token = client.parse_request_body_response(response.text, scope=credential.scope)
            lifetime = float(token.get("expires_in") or 3600)  # some endpoints send it as a text
        except (OAuth2Error, ValueError, Warning) as error:
            what = getattr(error, "error", None) or f"status {response.status_code}"
            raise CredentialsRejected(
                f"the token endpoint at {where} gives no token ({what}): ask the provider for a new profile"
            ) from None
        self._token = token["access_token"]
        self._fetched_at = time.monotonic()
        self._renew_at = self._fetched_at + max(lifetime - RENEW_BEFORE, lifetime / 2)


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
    except (jwt.PyJWTError, NotImplementedError, ValueError, TypeError):
        raise ProfileInvalid(f"the private key of the profile cannot sign with {credential.algorithm}") from None
