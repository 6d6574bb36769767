"""Moves bytes from signed URLs into the mirror's store. Data pages are never decoded, and nothing touches a disk.

A small file is one GET and one conditional PUT. A large one streams through a multipart upload, part by part.
What is in memory at once is bounded for the whole process, not per file.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager

import urllib3

from deltamirror.delta import deletion_vector
from deltamirror.errors import Fault, Kind
from deltamirror.mirror.errors import FileCorrupt, FileUnavailable
from deltamirror.mirror.plan import FileCopy, Plan, VectorCopy
from deltamirror.mirror.progress import Progress
from deltamirror.store import Store

STREAM_FROM = 64 * 1024 * 1024
"""Files of at least this size are streamed in parts instead of being held in memory."""
PART = 8 * 1024 * 1024
BYTES_IN_FLIGHT = 512 * 1024 * 1024
LIST_FROM = 50
"""With at least this many files to copy, one listing of the store is cheaper than a question per file."""

_MAGIC = b"PAR1"
_ATTEMPTS = 4
_TIMEOUT = urllib3.Timeout(connect=10, read=60)


class _ByteBudget:
    """Admits work while the bytes it holds stay below a limit; something larger than the limit goes alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        size = min(size, self._limit)
        with self._changed:
            self._changed.wait_for(lambda: self._used + size <= self._limit)
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()


_budget = _ByteBudget(BYTES_IN_FLIGHT)


class Copied:
    """What a run of copies did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.files = 0
        self.vectors = 0
        self.bytes = 0

    def add(self, size: int, *, vector: bool = False) -> None:
        with self._lock:
            self.bytes += size
            self.files += not vector
            self.vectors += vector


def copy_files(plan: Plan, store: Store, concurrency: int, progress: Progress) -> Copied:
    """Copies whatever of a plan is not in the store yet, and verifies all of it."""
    present = _present(plan, store)
    copied = Copied()
    with (
        urllib3.PoolManager(num_pools=16, maxsize=concurrency, timeout=_TIMEOUT, retries=False) as http,
        ThreadPoolExecutor(concurrency, thread_name_prefix="copy") as pool,
    ):
        work: list[Callable[[], None]] = []
        for vector in plan.vectors:
            there = vector.path in present
            work.append(lambda vector=vector, there=there: _vector(vector, there, http, store, copied))  # type: ignore[misc]
        for file in plan.files:
            if present.get(file.path) != file.size:
                work.append(lambda file=file: _file(file, http, store, copied, progress))  # type: ignore[misc]
            else:
                progress.copied(file.size)
                progress.file_done()
        futures = [pool.submit(_attempts, task, progress) for task in work]
        done, pending = wait(futures, return_when=FIRST_EXCEPTION)
        for future in pending:
            future.cancel()
        for future in done:
            future.result()
    return copied


def _present(plan: Plan, store: Store) -> dict[str, int]:
    paths = [file.path for file in plan.files] + [vector.path for vector in plan.vectors]
    if len(paths) >= LIST_FROM:
        return {info.path: info.size for info in store.list()}
    return {path: info.size for path in paths if (info := store.head(path)) is not None}


def _attempts(task: Callable[[], None], progress: Progress) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            task()
            progress.file_done()
            return
        except (urllib3.exceptions.HTTPError, FileCorrupt) as error:
            if attempt == _ATTEMPTS:
                if isinstance(error, FileCorrupt):
                    raise
                raise FileUnavailable(f"the provider's storage cut off a file: {type(error).__name__}") from None
        except Fault as error:
            if error.kind is not Kind.TRANSIENT or isinstance(error, FileUnavailable) or attempt == _ATTEMPTS:
                raise
        time.sleep(random.uniform(0, 0.25 * 2**attempt))


def _file(file: FileCopy, http: urllib3.PoolManager, store: Store, copied: Copied, progress: Progress) -> None:
    with _budget.hold(min(file.size, STREAM_FROM)), _get(http, file.url, file.path) as response:
        length = response.headers.get("content-length")
        if length is not None and int(length) != file.size:
            raise FileUnavailable(
                f"the provider's storage has {length} bytes for a file that the table lists with {file.size}"
            )
        if file.size < STREAM_FROM:
            data = response.read()
            _check_parquet(file, len(data), data[:4], data[-4:])
            store.put_if_absent(file.path, data)
            progress.copied(file.size)
        else:
            store.put(file.path, _parts(file, response, progress))
    copied.add(file.size)


def _parts(file: FileCopy, response: urllib3.BaseHTTPResponse, progress: Progress) -> Iterator[bytes]:
    """An error raised in here aborts the upload, so a file that fails its check never becomes an object."""
    seen = 0
    head = tail = b""
    while part := response.read(PART):
        head = head or part[:4]
        tail = (tail + part)[-4:]
        seen += len(part)
        if seen >= file.size:
            _check_parquet(file, seen, head, tail)
        yield part
        progress.copied(len(part))
    if seen != file.size:
        raise FileCorrupt(f"a data file ended after {seen} of {file.size} bytes")


def _check_parquet(file: FileCopy, size: int, head: bytes, tail: bytes) -> None:
    if size != file.size:
        raise FileCorrupt(f"a data file has {size} bytes; the table lists it with {file.size}")
    if head != _MAGIC or tail != _MAGIC:
        raise FileCorrupt("a data file does not start and end as a Parquet file does")


def _vector(vector: VectorCopy, there: bool, http: urllib3.PoolManager, store: Store, copied: Copied) -> None:
    if there:
        deletion_vector.check_file(store.get(vector.path), list(vector.slices))
        return
    with _get(http, vector.url, vector.path) as response:
        data = response.read()
    deletion_vector.check_file(data, list(vector.slices))
    store.put_if_absent(vector.path, data)
    copied.add(len(data), vector=True)


@contextmanager
def _get(http: urllib3.PoolManager, url: str, path: str) -> Iterator[urllib3.BaseHTTPResponse]:
    response = http.request("GET", url, preload_content=False)
    try:
        if response.status != 200:
            if response.status == 429 or response.status >= 500:
                raise urllib3.exceptions.HTTPError(f"status {response.status}")
            raise FileUnavailable(
                f"the provider's storage answers {response.status} for a file of the table"
                " (its signed URL expired, or the file was vacuumed)"
            )
        yield response
        response.drain_conn()
    finally:
        response.release_conn()
