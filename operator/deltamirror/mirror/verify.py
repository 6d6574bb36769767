"""What is checked of a file before a commit may name it."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta.actions import DeletionVector
from deltamirror.mirror.errors import FileCorrupt
from deltamirror.store import Store

MAGIC = b"PAR1"
_TAIL = 64 * 1024


def check_parquet(expected: int, size: int, head: bytes, tail: bytes) -> None:
    if size != expected:
        raise FileCorrupt(f"a data file has {size} bytes; the table lists it with {expected}")
    if head != MAGIC or tail != MAGIC:
        raise FileCorrupt("a data file does not start and end as a Parquet file does")


def row_count(store: Store, path: str, size: int) -> int:
    """The number of rows in a Parquet file, from its footer alone."""
    tail = store.get_range(path, max(0, size - _TAIL), min(size, _TAIL))
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > len(tail):
        tail = store.get_range(path, max(0, size - length), min(size, length))
    try:
        # A file that is nothing but a footer is enough for its metadata.
        return int(pq.read_metadata(pa.BufferReader(MAGIC + tail)).num_rows)
    except (pa.ArrowInvalid, OSError) as error:
        raise FileCorrupt(f"the footer of a data file cannot be read: {error}") from None


def with_row_count(stats: str | None, rows: int) -> str:
    """Statistics with the number of records that a file with a deletion vector must have."""
    known = msgspec.json.decode(stats) if stats else {}
    return msgspec.json.encode(
        {"numRecords": rows, **(known if isinstance(known, dict) else {})} | {"numRecords": rows}
    ).decode()


def same_bytes(store: Store, ours: DeletionVector, theirs: DeletionVector) -> bool:
    """Whether a vector that the source calls by a new name is, byte for byte, the one that we have."""
    length = ours.size_in_bytes + dv.FRAME_BYTES
    one, other = (store.get_range(dv.relative_path(v), v.offset or 0, length) for v in (ours, theirs))
    return one == other
