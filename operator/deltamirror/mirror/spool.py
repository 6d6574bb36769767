"""A list that is too long to hold: structs, packed and compressed in memory, read back in order.

A million planned files with their statistics and signed URLs are a gigabyte as objects and about a tenth of that in here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec
import pyarrow as pa

T = TypeVar("T")
_BLOCK = 1024 * 1024


class Spool(Generic[T]):
    def __init__(self, kind: type[T]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]
        self._blocks: list[tuple[int, bytes]] = []
        self._open: list[T] = []
        self._open_bytes = 0
        self._length = 0

    def append(self, item: T, weight: int) -> None:
        """`weight` is about how many bytes the item has."""
        self._open.append(item)
        self._open_bytes += weight
        self._length += 1
        if self._open_bytes >= _BLOCK:
            packed = self._encoder.encode(self._open)
            self._blocks.append((len(packed), pa.compress(packed, codec="zstd", asbytes=True)))
            self._open, self._open_bytes = [], 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for size, block in self._blocks:
            yield from self._decoder.decode(pa.decompress(block, size, codec="zstd", asbytes=True))
        yield from self._open
