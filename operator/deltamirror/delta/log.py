"""Which files make up a version of a log, and the stream of actions in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from deltamirror.delta import checkpoint
from deltamirror.delta.actions import Line, decode_line
from deltamirror.delta.errors import LogCorrupt, NotATable, VersionNotFound
from deltamirror.delta.snapshot import Replay, Snapshot
from deltamirror.delta.storage import Entry, LogStorage
from deltamirror.ndjson import split

FOLDER = "_delta_log"

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:(\d{10})\.(\d{10})\.)?(?:([0-9a-f-]{36})\.)?(parquet|json)")


def commit_path(version: int) -> str:
    return f"{FOLDER}/{version:020d}.json"


@dataclass(frozen=True, slots=True)
class Listing:
    """The commits and the complete checkpoints that a log folder holds."""

    commits: dict[int, Entry]
    checkpoints: dict[int, list[str]]

    @property
    def latest(self) -> int:
        return max([*self.commits, *self.checkpoints])


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that make up one version: a checkpoint, if there is one, and the commits after it."""

    version: int
    checkpoint: int | None
    checkpoint_files: tuple[str, ...]
    commits: range
    info_apart: bool
    """The version is its own checkpoint, and its commit is there too: only the commit has its commitInfo."""


def list_log(storage: LogStorage) -> Listing:
    commits: dict[int, Entry] = {}
    parts: dict[int, list[tuple[int, str]]] = {}
    for entry in storage.list(FOLDER):
        folder, _, name = entry.path.rpartition("/")
        if folder != FOLDER:
            continue
        if found := _COMMIT.fullmatch(name):
            commits[int(found.group(1))] = entry
        elif found := _CHECKPOINT.fullmatch(name):
            parts.setdefault(int(found.group(1)), []).append((int(found.group(3) or 1), entry.path))
    return Listing(commits, {v: chosen for v, found in parts.items() if (chosen := _complete(found))})


def _complete(parts: list[tuple[int, str]]) -> list[str] | None:
    """One usable checkpoint of a version: a single file if there is one, else all parts of a multi-part one."""
    single = sorted(path for count, path in parts if count == 1)
    if single:
        return single[:1]
    for total in {count for count, _ in parts}:
        paths = sorted(path for count, path in parts if count == total)
        if len(paths) == total:
            return paths
    return None


def segment(listing: Listing, version: int | None = None) -> Segment:
    """What has to be read for a version, or for the newest."""
    if not listing.commits and not listing.checkpoints:
        raise NotATable("there is no Delta log here")
    wanted = listing.latest if version is None else version
    if wanted > listing.latest or wanted < 0:
        raise VersionNotFound(f"the log ends at version {listing.latest}; there is no version {wanted}")
    base = max((v for v in listing.checkpoints if v <= wanted), default=None)
    first = 0 if base is None else base + 1
    missing = [v for v in range(first, wanted + 1) if v not in listing.commits]
    if missing:
        if base is None and missing[0] == 0:
            raise VersionNotFound(f"version {wanted} cannot be rebuilt: the start of the log was cleaned up")
        raise LogCorrupt(f"the log has no commit {missing[0]}, but later ones")
    files = tuple(listing.checkpoints[base]) if base is not None else ()
    return Segment(wanted, base, files, range(first, wanted + 1), base == wanted and base in listing.commits)


def actions(storage: LogStorage, part: Segment) -> Iterator[tuple[int, Line]]:
    """Every action of a segment in the order of the log, with the version it was read from; streamed."""
    if part.checkpoint is not None:
        for path in part.checkpoint_files:
            for line in checkpoint.read(storage, path, FOLDER):
                yield part.checkpoint, line
        if part.info_apart:
            for line in read_commit(storage, part.checkpoint):
                if line.commit_info is not None:
                    yield part.checkpoint, line
                    break
    for number in part.commits:
        for line in read_commit(storage, number):
            yield number, line


def load(storage: LogStorage, version: int | None = None, listing: Listing | None = None) -> Snapshot:
    """The whole state of a version in memory. For tables of any size, read `actions` instead."""
    part = segment(listing or list_log(storage), version)
    replay = Replay(part.version)
    for number, line in actions(storage, part):
        replay.apply(number, line)
    return replay.snapshot(part.checkpoint)


def read_commit(storage: LogStorage, version: int) -> Iterator[Line]:
    for number, text in enumerate(split(storage.stream(commit_path(version))), 1):
        if text and not text.isspace():
            try:
                yield decode_line(text)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise LogCorrupt(f"line {number} of commit {version} is no Delta action: {error}") from None
