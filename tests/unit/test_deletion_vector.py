"""Deletion vectors: a wrong one brings deleted rows back, so every byte is checked."""

from __future__ import annotations

import struct
import uuid
import zlib

import pytest
from pyroaring import BitMap64

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.errors import DeletionVectorCorrupt
from tests.data import TABLES


def framed(rows: list[int]) -> bytes:
    data = struct.pack("<I", dv.MAGIC) + BitMap64(rows).serialize()
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def test_z85_of_the_zeromq_specification() -> None:
    assert dv.z85_encode(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"
    assert dv.z85_decode("HelloWorld") == bytes.fromhex("864FD26FB559F75B")


def test_a_name_survives_the_way_through_its_descriptor() -> None:
    name = uuid.uuid4()
    assert dv.relative_path(dv.in_file(name, 1, 40, 3)) == f"deletion_vector_{name}.bin"


def test_a_random_prefix_is_a_folder() -> None:
    name = uuid.uuid4()
    vector = DeletionVector("u", "ab" + dv.z85_encode(name.bytes), 40, 3, 1)
    assert dv.relative_path(vector) == f"ab/deletion_vector_{name}.bin"


def test_vectors_that_spark_wrote_are_accepted() -> None:
    from deltamirror.delta import log
    from deltamirror.store import open_store

    store = open_store(f"file://{TABLES}/dv_part", environment={})
    vectors = [a.deletion_vector for a in log.load(store).files.values() if a.deletion_vector]
    assert vectors
    for vector in vectors:
        data = store.get(dv.relative_path(vector))
        dv.check_file(data, [(vector.offset or 0, vector.size_in_bytes, vector.cardinality)])


def test_several_vectors_in_one_file() -> None:
    first, second = framed([1, 5, 9]), framed([2**33, 7])
    data = b"\x01" + first + second
    dv.check_file(data, [(1, len(first) - 8, 3), (1 + len(first), len(second) - 8, 2)])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda d: b"\x02" + d[1:], "format version"),
        (lambda d: d[:20], "past the end"),
        (lambda d: d[:10] + bytes([d[10] ^ 1]) + d[11:], "checksum"),
        (lambda d: d[:-1] + bytes([d[-1] ^ 1]), "checksum"),
        (lambda d: d[:4] + bytes([d[4] ^ 1]) + d[5:], "its descriptor says"),
        (lambda d: b"", "format version"),
    ],
)
def test_damage_is_seen(damage, sentence) -> None:  # type: ignore[no-untyped-def]
    data = b"\x01" + framed([1, 5, 9])
    with pytest.raises(DeletionVectorCorrupt, match=sentence):
        dv.check_file(damage(data), [(1, len(data) - 9, 3)])


def test_a_wrong_cardinality_is_seen_though_readers_do_not_look() -> None:
    data = b"\x01" + framed([1, 5, 9])
    with pytest.raises(DeletionVectorCorrupt, match="marks 3 rows"):
        dv.check_file(data, [(1, len(data) - 9, 4)])
