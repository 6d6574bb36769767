"""Deletion vectors on storage: names, descriptors and the bytes they point at.

Delta protocol: Deletion Vector Format and Deletion Vector File Storage Format. A file starts with the
format version (one byte, 1); then, per vector, a big-endian length, the bitmap data and its CRC-32. The bitmap data is a little-endian
magic number and a 64-bit Roaring bitmap in the portable layout. `offset` of a descriptor points at the length.
"""

from __future__ import annotations

import struct
import uuid
import zlib

from pyroaring import BitMap64

from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.errors import DeletionVectorCorrupt

FORMAT_VERSION = 1
MAGIC = 1681511377
FRAME_BYTES = 8
"""Length before and checksum after the data of a vector."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUE = {char: value for value, char in enumerate(_Z85)}


def z85_encode(data: bytes) -> str:
    if len(data) % 4:
        raise ValueError("Z85 encodes multiples of four bytes")
    out: list[str] = []
    for (word,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            digits.append(_Z85[digit])
        out.extend(reversed(digits))
    return "".join(out)


def z85_decode(text: str) -> bytes:
    if len(text) % 5:
        raise ValueError("Z85 text has multiples of five characters")
    out = bytearray()
    for start in range(0, len(text), 5):
        word = 0
        for char in text[start : start + 5]:
            word = word * 85 + _Z85_VALUE[char]
        out += word.to_bytes(4, "big")
    return bytes(out)


def file_name(name: uuid.UUID) -> str:
    return f"deletion_vector_{name}.bin"


def relative_path(vector: DeletionVector) -> str:
    """The path, below the table's root, of the file that a 'u' descriptor names."""
    if vector.storage_type != "u":
        raise ValueError(f"storage type {vector.storage_type!r} names no file below the table")
    prefix = vector.path_or_inline_dv[:-20]
    name = file_name(file_uuid(vector))
    return f"{prefix}/{name}" if prefix else name


def file_uuid(vector: DeletionVector) -> uuid.UUID:
    """The uuid in the name of the file that a 'u' descriptor names."""
    return uuid.UUID(bytes=z85_decode(vector.path_or_inline_dv[-20:]))


def in_file(name: uuid.UUID, offset: int | None, size_in_bytes: int, cardinality: int) -> DeletionVector:
    """A descriptor of storage type 'u' for a vector in `deletion_vector_<uuid>.bin` at the table's root."""
    return DeletionVector("u", z85_encode(name.bytes), size_in_bytes, cardinality, offset)


def check_file(data: bytes | memoryview, vectors: list[tuple[int, int, int]]) -> None:
    """Checks every (offset, size, cardinality) that log entries claim of the vectors in one file."""
    if len(data) < 1 or data[0] != FORMAT_VERSION:
        found = data[0] if len(data) else "nothing"
        raise DeletionVectorCorrupt(f"a deletion vector file starts with {found}, not with format version 1")
    for offset, size, cardinality in vectors:
        end = offset + size + FRAME_BYTES
        if offset < 1 or end > len(data):
            raise DeletionVectorCorrupt(
                f"a deletion vector of {size} bytes at offset {offset} reaches past the end of its file of {len(data)} bytes"
            )
        (length,) = struct.unpack_from(">i", data, offset)
        if length != size:
            raise DeletionVectorCorrupt(
                f"the deletion vector at offset {offset} has {length} bytes; its descriptor says {size}"
            )
        bitmap = bytes(data[offset + 4 : offset + 4 + size])
        (checksum,) = struct.unpack_from(">I", data, offset + 4 + size)
        if zlib.crc32(bitmap) != checksum:
            raise DeletionVectorCorrupt(f"the checksum of the deletion vector at offset {offset} is wrong")
        check_bitmap(bitmap, cardinality)


def check_bitmap(data: bytes, cardinality: int) -> None:
    """Readers trust the cardinality without looking: a wrong one gives wrong counts, so it is checked here."""
    if len(data) < 12 or int.from_bytes(data[:4], "little") != MAGIC:
        raise DeletionVectorCorrupt("a deletion vector does not start with the magic number of its format")
    try:
        rows = len(BitMap64.deserialize(data[4:]))
    except ValueError as error:
        raise DeletionVectorCorrupt("a deletion vector is not a readable Roaring bitmap") from error
    if rows != cardinality:
        raise DeletionVectorCorrupt(f"a deletion vector marks {rows} rows; its descriptor says {cardinality}")
