"""One folder of an object store, seen through the few calls that a mirror needs.

Bytes go through obstore (Rust, no interpreter lock held); this class only gives its errors a sentence and a kind.
All paths are relative to the folder.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from botocore.exceptions import BotoCoreError, ClientError
from obstore import exceptions as obs

from deltamirror.store.errors import (
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreNotFound,
    StoreUnavailable,
)
from deltamirror.store.s3 import S3Control

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART = 16 * 1024 * 1024
ONE_REQUEST = 64 * 1024 * 1024
"""Streamed objects below this size are written in one request."""
_BATCH = 1000

_REJECTED = {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
"""Codes of S3 that are about who we are, whatever status they come with."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    path: str
    size: int
    modified: datetime


class Store:
    def __init__(
        self, uri: str, backend: ObjectStore, *, s3: S3Control | None = None, folder: Path | None = None
    ) -> None:
        self.uri = uri
        self._backend = backend
        self.s3 = s3
        self._folder = folder

    def get(self, path: str) -> bytes:
        with self._sentences(f"read {path}"):
            return bytes(obstore.get(self._backend, path).bytes())

    def stream(self, path: str) -> Iterator[bytes]:
        """An object in pieces, for those that may be large."""
        with self._sentences(f"read {path}"):
            for chunk in obstore.get(self._backend, path).stream(min_chunk_size=1024 * 1024):
                yield bytes(chunk)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._sentences(f"read {path}"):
            return bytes(obstore.get_range(self._backend, path, start=start, length=length))

    def head(self, path: str) -> ObjectInfo | None:
        try:
            with self._sentences(f"look at {path}"):
                return _info(obstore.head(self._backend, path))
        except ObjectNotFound:
            return None

    def put(self, path: str, data: Any, *, part_size: int = PART, concurrency: int = 4) -> None:
        """Writes or overwrites; `data` is a buffer, or an iterator of buffers for an upload in parts."""
        with self._sentences(f"write {path}"):
            obstore.put(self._backend, path, data, chunk_size=part_size, max_concurrency=concurrency)

    def put_if_absent(self, path: str, data: bytes | bytearray | memoryview | Iterator[bytes]) -> bool:
        """Writes the object, or answers False if there is one already. Atomic: one of many writers wins."""
        if isinstance(data, Iterator):
            parts = _regrouped(data, PART)
            start = list(itertools.islice(parts, ONE_REQUEST // PART))
            more = next(parts, None)
            if more is not None:
                return self._put_large_if_absent(path, itertools.chain(start, [more], parts))
            data = b"".join(start)
        try:
            with self._sentences(f"write {path}"):
                obstore.put(self._backend, path, data, mode="create")
        except _Exists:
            return False
        return True

    def _put_large_if_absent(self, path: str, parts: Iterator[bytes]) -> bool:
        with self._sentences(f"write {path}"):
            if self.s3 is not None:
                return self.s3.put_parts_if_absent(path, parts)
            if self._folder is not None:
                return _link_if_absent(self._folder / path, parts)
        return self.put_if_absent(path, b"".join(parts))  # other clouds: one request, held in memory

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below a folder, in no promised order."""
        with self._sentences(f"list {prefix or 'it'}"):
            for batch in obstore.list(self._backend, prefix or None, chunk_size=_BATCH):
                for meta in batch:
                    yield _info(meta)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes objects; one that is gone already is no error."""
        waiting = iter(paths)
        while batch := list(itertools.islice(waiting, _BATCH)):
            try:
                with self._sentences("delete objects"):
                    obstore.delete(self._backend, batch)
            except ObjectNotFound:  # a local folder stops at the first one that is missing
                for path in batch:
                    with contextlib.suppress(ObjectNotFound), self._sentences(f"delete {path}"):
                        obstore.delete(self._backend, path)

    @contextlib.contextmanager
    def _sentences(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (obs.AlreadyExistsError, obs.PreconditionError, FileExistsError):
            raise _Exists from None
        except (obs.BaseError, OSError, ClientError, BotoCoreError) as error:
            raise self._fault(doing, error) from None

    def _fault(self, doing: str, error: Exception) -> StoreError:
        text = str(error)
        code = _first(r"<Code>(\w+)</Code>", text)
        if isinstance(error, ClientError):
            code = str(error.response.get("Error", {}).get("Code", ""))
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


def _link_if_absent(path: Path, parts: Iterator[bytes]) -> bool:
    """A link to a finished file either appears or fails; readers never see half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".upload-") as file:
        for part in parts:
            file.write(part)
        file.flush()
        try:
            os.link(file.name, path)
        except FileExistsError:
            return False
    return True


def _regrouped(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in parts of one size (the last may be smaller); at least one."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"])


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None


def _innermost(text: str) -> str:
    """obstore prints a debug tree after its message; its first line, without URLs, is for people."""
    line = text.split("\n", 1)[0].split("Debug source")[0]
    return re.sub(r"https?://[^\s'\"]+", lambda url: url.group(0).split("?")[0], line).strip()[:300]
