"""Moves bytes from signed URLs into the mirror's store, and verifies them. Data pages are never decoded, and nothing touches a disk.

A small file is one GET and one conditional PUT. A large one is copied in parts: ranges are fetched side by side and go into a
multipart upload in order; a part that fails is fetched again, not the file. URLs that expire are renewed and the copy goes on.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from deltamirror.delta import deletion_vector as dv
from deltamirror.errors import Fault, Kind
from deltamirror.mirror import verify
from deltamirror.mirror.budget import Throttle, in_flight
from deltamirror.mirror.errors import FileCorrupt, FileUnavailable, TooSlow
from deltamirror.mirror.plan import Entry, Plan, VectorCopy
from deltamirror.mirror.progress import Progress
from deltamirror.mirror.spool import Spool
from deltamirror.mirror.state import VECTOR_TAG
from deltamirror.sharing import FileChanged, FileGone, FreshUrls, RangeIgnored, StorageClient, UrlExpired
from deltamirror.store import Store

PARTS_FROM = 64 * 1024 * 1024
"""Files of at least this size are copied in parts."""
PART = 16 * 1024 * 1024
MOST_PARTS = 9_000
PREFETCH = 4
LIST_FROM = 50
"""With at least this many files to copy, one listing of the store is cheaper than a question per file."""
LARGEST_VECTOR_FILE = 1 << 30
ATTEMPTS = 4
RENEWALS = 20

T = TypeVar("T", Entry, VectorCopy)
Renew = Callable[[set[str]], dict[str, FreshUrls]]


@dataclass(slots=True)
class Copied:
    """What a run of copies did, and the entries that a commit may now name."""

    entries: Spool[Entry] = field(default_factory=lambda: Spool(Entry))
    files: int = 0
    vectors: int = 0
    bytes: int = 0


class Copier:
    def __init__(
        self,
        store: Store,
        storage: StorageClient,
        renew: Renew,
        *,
        concurrency: int,
        bytes_per_second: int | None,
        deadline: float,
        progress: Progress,
    ) -> None:
        self._store = store
        self.storage = storage
        self.renew = renew
        self._concurrency = concurrency
        self.throttle = Throttle(bytes_per_second)
        self.deadline = deadline
        self.progress = progress
        self._lock = threading.Lock()
        self._present: dict[str, int] = {}
        self._skipped: list[tuple[str, int]] = []
        self._copied = Copied()

    def run(self, plan: Plan) -> Copied:
        """Copies whatever of a plan is not in the store yet, and verifies all of it."""
        if plan.files_to_copy or plan.vectors:
            self._present = self._look(plan)
            self._rounds(plan.vectors.values(), self._vector, _renewed_vector)
        self._rounds(plan.entries, self._entry, _renewed_entry)
        self._check_skipped()
        return self._copied

    # ---- rounds --------------------------------------------------------------------------------------------

    def _rounds(self, items: Iterable[T], work: Callable[[T], None], renewed: Callable[[T, FreshUrls], T]) -> None:
        """Works on all items; those whose URLs have expired come again with new ones."""
        fruitless = 0
        for _round in range(RENEWALS):
            expired, done = self._round(items, work)
            if not expired:
                return
            fruitless = 0 if done else fruitless + 1
            if fruitless == 2:
                raise FileUnavailable("the provider's storage refuses even new signed URLs of the table's files")
            fresh = self.renew({item.file_id for item in expired})
            missing = sum(item.file_id not in fresh for item in expired)
            if missing:
                raise FileUnavailable(f"{missing} files of the table are no longer listed by the provider")
            items = [renewed(item, fresh[item.file_id]) for item in expired]
        raise FileUnavailable("signed URLs expire faster than files can be copied")

    def _round(self, items: Iterable[T], work: Callable[[T], None]) -> tuple[list[T], int]:
        expired: list[T] = []
        done = 0
        found_expired = threading.Event()

        def attempt(item: T) -> bool:
            if found_expired.is_set():
                return False  # its neighbours' URLs are gone, and this one's soon
            try:
                self.attempts(lambda: work(item))
            except UrlExpired:
                found_expired.set()
                return False
            return True

        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="copy") as pool:
            running: dict[Future[bool], T] = {}
            try:
                for item in items:
                    running[pool.submit(attempt, item)] = item
                    if len(running) >= 4 * self._concurrency:
                        done += self._collect(running, expired, FIRST_COMPLETED)
                while running:
                    done += self._collect(running, expired, FIRST_COMPLETED)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return expired, done

    def _collect(self, running: dict[Future[bool], T], expired: list[T], when: str) -> int:
        finished, _ = wait(running, return_when=when)
        done = 0
        for future in finished:
            item = running.pop(future)
            if future.result():
                done += 1
            else:
                expired.append(item)
        return done

    def attempts(self, work: Callable[[], None]) -> None:
        """Tries again what may heal. A file that is gone or has changed needs a new plan, an expired URL a new one."""
        for attempt in range(1, ATTEMPTS + 1):
            if time.monotonic() > self.deadline:
                raise TooSlow(
                    "the sync takes longer than transfer.timeout; what was copied so far is kept for the next one"
                )
            try:
                work()
                return
            except (FileGone, FileChanged) as error:
                raise FileUnavailable(f"a file of the table cannot be read any more: {error}") from None
            except UrlExpired:
                raise
            except Fault as error:
                if error.kind is not Kind.TRANSIENT or isinstance(error, TooSlow) or attempt == ATTEMPTS:
                    raise
                wait_seconds = getattr(error, "retry_after", None) or random.uniform(0, 0.25 * 2**attempt)
                time.sleep(min(wait_seconds, 30.0))

    # ---- one file ------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry) -> None:
        if entry.copy:
            self._data(entry)
        add = entry.add
        if entry.count_rows:
            rows = verify.row_count(self._store, add.path, add.size)
            add = msgspec.structs.replace(add, stats=verify.with_row_count(add.stats, rows))
        cancels = entry.cancels
        if entry.compare and cancels is not None:
            ours, theirs = cancels.deletion_vector, add.deletion_vector
            if ours is not None and theirs is not None and verify.same_bytes(self._store, ours, theirs):
                tags: dict[str, str | None] = {VECTOR_TAG: str(dv.file_uuid(theirs))}
                add = msgspec.structs.replace(add, deletion_vector=ours, tags=tags, data_change=False)
                cancels = None
        with self._lock:
            final = msgspec.structs.replace(entry, add=add, cancels=cancels, url="")
            self._copied.entries.append(final, 300 + len(add.stats or ""))

    def _data(self, entry: Entry) -> None:
        path, size = entry.add.path, entry.add.size
        if self._present.get(path) == size:
            self.progress.copied(size)
            with self._lock:
                self._skipped.append((path, size))
        else:
            if size < PARTS_FROM:
                self._in_one(entry)
            else:
                self._in_parts(entry)
            with self._lock:
                self._copied.files += 1
                self._copied.bytes += size
        self.progress.file_done()

    def _in_one(self, entry: Entry) -> None:
        path, size = entry.add.path, entry.add.size
        with in_flight.hold(size):
            with self.storage.get(entry.url, most=size, deadline=self.deadline) as response:
                _check_total(response.total, size)
                data = response.read()
            verify.check_parquet(size, len(data), data[:4], data[-4:])
            self.throttle.take(size)
            self._store.put_if_absent(path, data)
        self.progress.copied(size)

    def _in_parts(self, entry: Entry) -> None:
        part = max(PART, -(-entry.add.size // MOST_PARTS))
        with (
            in_flight.hold(2 * PREFETCH * part),
            ThreadPoolExecutor(PREFETCH, thread_name_prefix="part") as pool,
        ):
            try:
                parts = _Parts(self, entry, part).fetch(pool)
                self._store.put(entry.add.path, parts, part_size=part, concurrency=PREFETCH)
            except RangeIgnored:
                self._store.put(entry.add.path, self._in_sequence(entry, part), part_size=part, concurrency=PREFETCH)

    def _in_sequence(self, entry: Entry, part: int) -> Iterator[bytes]:
        """The parts of a large file from a storage that knows no ranges: one after the other, from one request."""
        size, seen = entry.add.size, 0
        head = tail = b""
        with self.storage.get(entry.url, most=size, deadline=self.deadline) as response:
            _check_total(response.total, size)
            while data := response.read(part):
                head, tail, seen = head or data[:4], data[-4:], seen + len(data)
                if seen >= size:
                    verify.check_parquet(size, seen, head, tail)
                self.throttle.take(len(data))
                self.progress.copied(len(data))
                yield data
        if seen < size:
            raise FileCorrupt(f"a data file ended after {seen} of {size} bytes")

    def _vector(self, vector: VectorCopy) -> None:
        slices = sorted(vector.slices)
        if vector.path in self._present:
            dv.check_file(self._store.get(vector.path), slices)
            with self._lock:
                self._skipped.append((vector.path, self._present[vector.path]))
        else:
            with self.storage.get(vector.url, most=LARGEST_VECTOR_FILE, deadline=self.deadline) as response:
                data = response.read()
            dv.check_file(data, slices)
            self._store.put_if_absent(vector.path, data)
            with self._lock:
                self._copied.vectors += 1
                self._copied.bytes += len(data)
        self.progress.file_done()

    # ---- what is there already -----------------------------------------------------------------------------

    def _look(self, plan: Plan) -> dict[str, int]:
        if plan.files_to_copy + len(plan.vectors) >= LIST_FROM:
            return {info.path: info.size for info in self._store.list()}
        paths = [entry.add.path for entry in plan.entries if entry.copy] + list(plan.vectors)
        return {path: info.size for path in paths if (info := self._store.head(path)) is not None}

    def _check_skipped(self) -> None:
        """What was not copied because it was there has to be there still: clean-up of an older run may have met it."""
        if not self._skipped:
            return
        if len(self._skipped) >= LIST_FROM:
            present = {info.path: info.size for info in self._store.list()}
        else:
            present = {path: info.size for path, _ in self._skipped if (info := self._store.head(path))}
        if any(present.get(path) != size for path, size in self._skipped):
            raise FileUnavailable("a file that was in the mirror's store a moment ago is gone from it")


class _Parts:
    """One large file as a sequence of ranges, fetched side by side and handed over in order."""

    def __init__(self, copier: Copier, entry: Entry, part: int) -> None:
        self._copier = copier
        self._entry = entry
        self._part = part
        self._lock = threading.Lock()
        self._url = entry.url
        self._etag: str | None = None

    def fetch(self, pool: ThreadPoolExecutor) -> Iterator[bytes]:
        """An error raised in here aborts the upload, so a file that fails its check never becomes an object."""
        size = self._entry.add.size
        ranges = iter((start, min(start + self._part, size)) for start in range(0, size, self._part))
        first = self._range(*next(ranges))  # alone, so that all others can insist on its ETag
        head, tail, seen = first[:4], first[-4:], len(first)
        yield first
        waiting: deque[Future[bytes]] = deque()
        for start, end in ranges:
            waiting.append(pool.submit(self._range, start, end))
            if len(waiting) < PREFETCH:
                continue
            data = waiting.popleft().result()
            tail, seen = data[-4:], seen + len(data)
            yield data
        while waiting:
            data = waiting.popleft().result()
            tail, seen = data[-4:], seen + len(data)
            if not waiting:
                verify.check_parquet(size, seen, head, tail)
            yield data

    def _range(self, start: int, end: int) -> bytes:
        parts: list[bytes] = []

        def work() -> None:
            url = self._url
            try:
                parts[:] = [self._read(url, start, end)]
            except UrlExpired:
                self._renew_url(url)
                parts[:] = [self._read(self._url, start, end)]

        self._copier.attempts(work)
        self._copier.throttle.take(end - start)
        self._copier.progress.copied(end - start)
        return parts[0]

    def _read(self, url: str, start: int, end: int) -> bytes:
        with self._copier.storage.get(
            url, start=start, end=end, if_match=self._etag, deadline=self._copier.deadline
        ) as response:
            _check_total(response.total, self._entry.add.size)
            data = response.read()
            self._etag = self._etag or response.etag
        if len(data) != end - start:
            raise FileCorrupt(f"a part of a data file has {len(data)} bytes instead of {end - start}")
        return data

    def _renew_url(self, expired: str) -> None:
        with self._lock:
            if self._url == expired:
                fresh = self._copier.renew({self._entry.file_id})
                if self._entry.file_id not in fresh:
                    raise FileUnavailable("a file of the table is no longer listed by the provider")
                self._url = fresh[self._entry.file_id].url


def _check_total(total: int | None, listed: int) -> None:
    if total is not None and total != listed:
        raise FileUnavailable(f"the provider's storage has {total} bytes for a file that the table lists with {listed}")


def _renewed_entry(entry: Entry, fresh: FreshUrls) -> Entry:
    return msgspec.structs.replace(entry, url=fresh.url)


def _renewed_vector(vector: VectorCopy, fresh: FreshUrls) -> VectorCopy:
    if fresh.deletion_vector_url is None:
        raise FileUnavailable("a file of the table lost its deletion vector while it was being copied")
    return VectorCopy(vector.path, fresh.deletion_vector_url, vector.file_id, vector.slices)
