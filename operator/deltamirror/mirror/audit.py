"""Compares a whole mirror with its source and its store, and says what is wrong. Nothing is changed here.

A sync trusts the mirror's log about what it has. An audit does not: somebody's VACUUM, a lifecycle rule of the bucket or a bad disk may
have taken objects that the log still names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta.errors import DeletionVectorCorrupt
from deltamirror.mirror import verify
from deltamirror.mirror.errors import FileCorrupt
from deltamirror.mirror.plan import Plan
from deltamirror.mirror.state import MirrorState
from deltamirror.store import ObjectNotFound, Store

SHOWN = 100
"""Findings of one kind that are named one by one; the rest is counted."""


@dataclass(slots=True)
class Audit:
    sourceVersion: int
    mirrorVersion: int
    files: int = 0
    bytes: int = 0
    deletionVectors: int = 0
    rows: int | None = None
    findings: dict[str, int] = field(default_factory=dict)
    """How many of each kind: missing, wrongSize, corrupt, vectorMissing, vectorCorrupt, notInSource, notInMirror, outdated."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    """Objects that have to be copied again."""

    @property
    def clean(self) -> bool:
        return not self.findings

    def found(self, kind: str, path: str, *, damaged: bool = False) -> None:
        self.findings[kind] = self.findings.get(kind, 0) + 1
        named = self.examples.setdefault(kind, [])
        if len(named) < SHOWN:
            named.append(path)
        if damaged:
            self.damaged.add(path)

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        del content["damaged"]
        return {**content, "clean": self.clean}


def audit(
    mirror: MirrorState, planned: Plan, store: Store, concurrency: int, progress: Callable[[], None] = lambda: None
) -> Audit:
    """`planned` is the plan of a sync: whatever is in it, the mirror lacks."""
    assert mirror.mark is not None
    result = Audit(
        planned.source_version, mirror.version, len(mirror.files), mirror.bytes, mirror.vectors, planned.rows
    )
    _against_source(result, planned)
    present = {info.path: info.size for info in store.list()}
    for path, live in mirror.files.items():
        if path not in present:
            result.found("missing", path, damaged=True)
        elif present[path] != live.size:
            result.found("wrongSize", path, damaged=True)
    intact = ((path, live.size) for path, live in mirror.files.items() if present.get(path) == live.size)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="audit") as pool:
        for path, fine in _checked(pool, intact, lambda item: _marks(store, *item)):
            progress()
            if not fine:
                result.found("corrupt", path, damaged=True)
        for path, slices in vectors(mirror):
            if path not in present:
                result.found("vectorMissing", path, damaged=True)
            elif not _vector_fine(store, path, slices):
                result.found("vectorCorrupt", path, damaged=True)
    return result


def _against_source(result: Audit, planned: Plan) -> None:
    for entry in planned.entries:
        result.found("notInMirror" if entry.copy else "outdated", entry.add.path)
    for remove in planned.gone:
        result.found("notInSource", remove.path)


def _checked(
    pool: ThreadPoolExecutor, items: Iterator[tuple[str, int]], check: Callable[[tuple[str, int]], bool]
) -> Iterator[tuple[str, bool]]:
    while batch := list(itertools.islice(items, 1000)):
        yield from zip((path for path, _ in batch), pool.map(check, batch), strict=True)


def _marks(store: Store, path: str, size: int) -> bool:
    try:
        verify.check_parquet(size, size, store.get_range(path, 0, 4), store.get_range(path, size - 4, 4))
    except (FileCorrupt, ObjectNotFound):
        return False
    return True


def vectors(mirror: MirrorState) -> Iterator[tuple[str, list[tuple[int, int, int]]]]:
    """The deletion vector files of a mirror, and the (offset, size, cardinality) of what is used of each."""
    slices: dict[str, set[tuple[int, int, int]]] = {}
    for live in mirror.files.values():
        if live.vector is not None and live.vector.storage_type == "u":
            place = (live.vector.offset or 0, live.vector.size_in_bytes, live.vector.cardinality)
            slices.setdefault(dv.relative_path(live.vector), set()).add(place)
    for path, places in slices.items():
        yield path, sorted(places)


def _vector_fine(store: Store, path: str, slices: list[tuple[int, int, int]]) -> bool:
    try:
        dv.check_file(store.get(path), slices)
    except (DeletionVectorCorrupt, ObjectNotFound):
        return False
    return True
