"""One folder of an object store, seen through the few calls that a mirror needs.

Bytes go through obstore (Rust, no interpreter lock held); this class only gives its errors a sentence and a kind.
All paths are relative to the folder.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import obstore
from obstore import exceptions as obs

from deltamirror.store.errors import (
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreNotFound,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    path: str
    size: int
    modified: datetime


_REJECTED = {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
"""Codes of S3 that are about who we are, whatever status they come with."""


class Store:
    def __init__(self, uri: str, backend: ObjectStore) -> None:
        self.uri = uri
        self._backend = backend

    def get(self, path: str) -> bytes:
        with self._sentences(f"read {path}"):
            return bytes(obstore.get(self._backend, path).bytes())

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._sentences(f"read {path}"):
            return bytes(obstore.get_range(self._backend, path, start=start, length=length))

    def head(self, path: str) -> ObjectInfo | None:
        try:
            with self._sentences(f"look at {path}"):
                return _info(obstore.head(self._backend, path))
        except ObjectNotFound:
            return None

    def put(self, path: str, data: Any) -> None:
        """Writes or overwrites; `data` is a buffer, or an iterator of buffers for a streamed upload."""
        with self._sentences(f"write {path}"):
            obstore.put(self._backend, path, data)

    def put_if_absent(self, path: str, data: bytes | bytearray | memoryview) -> bool:
        """Writes the object, or answers False if there is one already. Atomic: one of many writers wins."""
        try:
            with self._sentences(f"write {path}"):
                obstore.put(self._backend, path, data, mode="create")
        except _Exists:
            return False
        return True

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below a folder, in no promised order."""
        with self._sentences(f"list {prefix or 'it'}"):
            for batch in obstore.list(self._backend, prefix or None, chunk_size=1000):
                for meta in batch:
                    yield _info(meta)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes objects; one that is gone already is no error."""
        for path in paths:
            with contextlib.suppress(ObjectNotFound), self._sentences(f"delete {path}"):
                obstore.delete(self._backend, path)

    @contextlib.contextmanager
    def _sentences(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (obs.AlreadyExistsError, obs.PreconditionError) as error:
            raise _Exists(str(error)) from None
        except (obs.BaseError, FileNotFoundError, FileExistsError, OSError) as error:
            if isinstance(error, FileExistsError):
                raise _Exists(str(error)) from None
            raise self._fault(doing, error) from None

    def _fault(self, doing: str, error: Exception) -> StoreError:
        text = str(error)
        code = _first(r"<Code>(\w+)</Code>", text)
        if code == "NoSuchBucket":
            return StoreNotFound(f"{self.uri} does not exist: create the bucket first, or correct destination.uri")
        denied = isinstance(error, (obs.UnauthenticatedError, obs.PermissionDeniedError, PermissionError))
        if denied or code in _REJECTED:
            return StoreDenied(
                f"{self.uri} refuses to let us {doing} ({code or 'access denied'}): check the credentials of the destination"
            )
        if isinstance(error, (obs.NotFoundError, FileNotFoundError)):
            return ObjectNotFound(f"{self.uri} has no object to {doing}")
        return StoreUnavailable(f"{self.uri} cannot {doing} now: {code or _innermost(text)}")


class _Exists(Exception):
    """The condition of a put-if-absent did not hold."""


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"])


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None


def _innermost(text: str) -> str:
    """obstore prints a debug tree after its message; its first line, without URLs, is for people."""
    line = text.split("\n", 1)[0].split("Debug source")[0]
    return re.sub(r"https?://[^\s'\"]+", lambda url: url.group(0).split("?")[0], line).strip()[:300]
