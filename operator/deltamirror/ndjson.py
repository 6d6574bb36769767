"""Lines of JSON in a stream of bytes: what logs and sharing answers are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def split(chunks: Iterable[bytes], longest: int | None = None) -> Iterator[bytes]:
    """The lines of a stream. Holds one chunk and the rest of one line; a line above `longest` is a ValueError."""
    rest: list[bytes] = []
    waiting = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        waiting += len(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest, waiting = [others[-1]], len(others[-1])
        if longest is not None and waiting > longest:
            raise ValueError("a line has no end")
    if waiting:
        yield b"".join(rest)
