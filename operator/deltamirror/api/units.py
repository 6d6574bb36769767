"""Durations as Go writes them, sizes as Kubernetes writes them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import msgspec

# Seven digits and 32 characters keep a date that lies one duration ahead inside the calendar.
DURATION_PATTERN = r"^([0-9]{1,7}(\.[0-9]+)?(ms|s|m|h))+$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"

Duration = Annotated[str, msgspec.Meta(pattern=DURATION_PATTERN, max_length=32, examples=["10m", "1h30m"])]
Quantity = Annotated[str, msgspec.Meta(pattern=QUANTITY_PATTERN, max_length=24, examples=["200Mi", "5Ti"])]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_FACTORS = (
    {"": 1} | {p: 1000**i for i, p in enumerate("kMGTP", 1)} | {f"{p}i": 1024**i for i, p in enumerate("KMGTP", 1)}
)


def seconds(duration: Duration) -> float:
    return sum(float(n) * _SECONDS[unit] for n, unit in re.findall(r"([0-9.]+)(ms|s|m|h)", duration))


def delta(duration: Duration) -> timedelta:
    return timedelta(seconds=seconds(duration))


def size(quantity: Quantity) -> int:
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", quantity)
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity")
    return int(float(found.group(1)) * _FACTORS[found.group(2)])


def human(count: float) -> str:
    """Bytes for people: 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
