"""Signed URLs: the only way in which a recipient reaches files, valid for a while and for one file each.

Objects in a bucket are signed for their own store. Files on the local disk are served by this process, which
then plays the store's part: a path that ends in the real file name, an expiry and a signature in the query
string, and for anything else 403 with an XML body, as S3 sends it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlencode, urlsplit

import boto3
from botocore.credentials import Credentials, ReadOnlyCredentials

from deltamirror.store import S3Options
from sharing_provider.config import S3

FILES = "/files"
_SIGNATURE = "X-Amz-Signature"  # by this name the official Python client knows that a URL is signed


@dataclass(frozen=True, slots=True)
class SignedUrl:
    url: str
    expires: int
    """Milliseconds since the epoch."""


class Signer(Protocol):
    def sign(self, path: str) -> SignedUrl:
        """The URL of a file, given by its path below the table."""
        ...


def s3_credentials(s3: S3) -> Credentials:
    """From the configuration, else from wherever AWS tools look; they may renew themselves."""
    environment = s3.environment
    session = boto3.Session(
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
    )
    found = session.get_credentials()
    if found is None:
        raise PermissionError("there are no AWS credentials to sign URLs with")
    return found


class S3Signer:
    """Signature Version 4 in the query string, with all that one answer's URLs have in common made once.

    By hand because boto3 takes half a millisecond for each URL: a minute for a hundred thousand files.
    """

    def __init__(self, s3: S3Options, credentials: ReadOnlyCredentials, location: str, lifetime: int) -> None:
        now = time.time()
        self._expires = int((now + lifetime) * 1000)
        endpoint = urlsplit(s3.endpoint or f"https://s3.{s3.region}.amazonaws.com")
        bucket = urlsplit(location)
        self._origin, self._host = f"{endpoint.scheme}://{endpoint.netloc}", endpoint.netloc
        self._folder = f"/{bucket.netloc}{quote(bucket.path.rstrip('/'))}"

        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        scope = f"{moment[:8]}/{s3.region}/s3/aws4_request"
        parameters = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"{credentials.access_key}/{scope}",
            "X-Amz-Date": moment,
            "X-Amz-Expires": lifetime,
            "X-Amz-Security-Token": credentials.token,
            "X-Amz-SignedHeaders": "host",
        }
        self._query = urlencode({k: v for k, v in parameters.items() if v}, quote_via=quote, safe="")
        self._head = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n"
        self._key = f"AWS4{credentials.secret_key}".encode()
        for part in scope.split("/"):
            self._key = hmac.digest(self._key, part.encode(), "sha256")

    def sign(self, path: str) -> SignedUrl:
        target = f"{self._folder}/{quote(path)}"
        request = f"GET\n{target}\n{self._query}\nhost:{self._host}\n\nhost\nUNSIGNED-PAYLOAD"
        text = self._head + hashlib.sha256(request.encode()).hexdigest()
        signature = hmac.digest(self._key, text.encode(), "sha256").hex()
        return SignedUrl(f"{self._origin}{target}?{self._query}&X-Amz-Signature={signature}", self._expires)


class FileUrls:
    """Signs and checks the URLs of local files with a key that lives as long as the process."""

    def __init__(self, lifetime: int) -> None:
        self._key = secrets.token_bytes(32)
        self._lifetime = lifetime

    def expiry(self) -> int:
        """Of a URL that is signed now."""
        return int((time.time() + self._lifetime) * 1000)

    def sign(self, origin: str, path: str, expires: int) -> SignedUrl:
        """`path` starts at the root of this server and is not yet percent-encoded."""
        query = urlencode({"expires": expires, _SIGNATURE: self._signature("GET", path, str(expires))})
        return SignedUrl(f"{origin}{quote(path)}?{query}", expires)

    def objection(self, method: str, path: str, query: Mapping[str, str]) -> tuple[str, str] | None:
        """Why a request for a file is refused, as code and message of S3, or None."""
        expires = query.get("expires", "")
        expected = self._signature(method, path, expires)
        if not hmac.compare_digest(expected.encode(), query.get(_SIGNATURE, "").encode()):
            return "SignatureDoesNotMatch", "The signature does not match this method, path and expiry."
        if int(expires) < time.time() * 1000:
            return "AccessDenied", "Request has expired"
        return None

    def _signature(self, method: str, path: str, expires: str) -> str:
        return hmac.digest(self._key, f"{method}\n{path}\n{expires}".encode(), "sha256").hex()


class FileSigner:
    """Signs for one answer, in which a file has one URL: to clients of a change feed it is the name of the file."""

    def __init__(self, urls: FileUrls, origin: str, table: str) -> None:
        """`table` is its share, schema and name, separated by slashes."""
        self._urls, self._origin, self._table = urls, origin, table
        self._expires = urls.expiry()

    def sign(self, path: str) -> SignedUrl:
        return self._urls.sign(self._origin, f"{FILES}/{self._table}/{path}", self._expires)


def store_error(code: str, message: str) -> str:
    """An error body in the form of S3."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'
