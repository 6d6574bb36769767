"""Writing the log: commits by put-if-absent, then a checkpoint, then the pointer to it, in that order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import msgspec

from deltamirror.delta import checkpoint, log
from deltamirror.delta.actions import FileKey, Line, Metadata, Protocol, Remove, Txn, encode_line
from deltamirror.delta.errors import VersionExists
from deltamirror.delta.log import FOLDER, commit_path
from deltamirror.delta.storage import LogStorage

LAST_CHECKPOINT = f"{FOLDER}/_last_checkpoint"
_CHUNK = 4 * 1024 * 1024


def write_commit(storage: LogStorage, version: int, lines: Iterable[Line], commit_id: str) -> None:
    """Writes a commit, or raises VersionExists if somebody else's is there.

    `commit_id` stands in the commitInfo of these lines and of no others: a PUT whose answer was lost and that was sent again
    meets its own object, and knows it by that.
    """
    if not storage.put_if_absent(commit_path(version), _encoded(lines)) and not _is_ours(storage, version, commit_id):
        raise VersionExists(version)


def _encoded(lines: Iterable[Line]) -> Iterator[bytes]:
    buffer = bytearray()
    for line in lines:
        buffer += encode_line(line)
        buffer += b"\n"
        if len(buffer) >= _CHUNK:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def _is_ours(storage: LogStorage, version: int, commit_id: str) -> bool:
    first = next(iter(log.read_commit(storage, version)), None)
    return first is not None and commit_id in str(first.commit_info)


def write_checkpoint(storage: LogStorage, version: int, tombstones_for_seconds: float) -> None:
    """Writes the checkpoint of a version from the log itself, reading it twice: memory holds keys, not statistics.

    Tombstones that are older than they have to be kept have done their work and are left out.
    """
    part = log.segment(log.list_log(storage), version)
    oldest = int((time.time() - tombstones_for_seconds) * 1000)
    live: dict[FileKey, int] = {}
    removed: dict[FileKey, Remove] = {}
    heads: dict[str, Protocol | Metadata] = {}
    txns: dict[str, Txn] = {}
    for number, (_, line) in enumerate(log.actions(storage, part)):
        if line.add is not None:
            live[line.add.key] = number
            removed.pop(line.add.key, None)
        elif line.remove is not None:
            live.pop(line.remove.key, None)
            if (line.remove.deletion_timestamp or 0) >= oldest:
                removed[line.remove.key] = line.remove
        elif line.protocol is not None:
            heads["protocol"] = line.protocol
        elif line.meta_data is not None:
            heads["metadata"] = line.meta_data
        elif line.txn is not None:
            txns[line.txn.app_id] = line.txn

    writer = checkpoint.Writer()
    for head in heads.values():
        writer.write(Line(protocol=head) if isinstance(head, Protocol) else Line(meta_data=head))
    for txn in txns.values():
        writer.write(Line(txn=txn))
    winners = set(live.values())
    for number, (_, line) in enumerate(log.actions(storage, part)):
        if line.add is not None and number in winners:
            writer.write(line)
    for remove in removed.values():
        writer.write(Line(remove=remove))
    data = writer.finish()
    storage.put(f"{FOLDER}/{version:020d}.checkpoint.parquet", data)
    hint = {"version": version, "size": writer.actions, "sizeInBytes": len(data), "numOfAddFiles": writer.adds}
    storage.put(LAST_CHECKPOINT, msgspec.json.encode(hint))
