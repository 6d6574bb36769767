"""Times that servers tell, by clocks that may be wrong: theirs, and ours."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER = 3600.0
LONGEST_LIFETIME = 7 * 86400.0
"""Signed URLs live for seven days at most, in every cloud."""


@dataclass(frozen=True, slots=True)
class ServerClock:
    """What a server's clock showed at a moment of our own, so that its times can be used whatever our calendar says."""

    server: float
    """Seconds since the epoch, by the Date header of its answer; by our own clock if it sent none."""
    local: float
    """Monotonic."""

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> ServerClock:
        date = _date(headers.get("date"))
        return cls(date if date is not None else time.time(), time.monotonic())

    def until(self, expires_at: int | None) -> float | None:
        """The monotonic time at which something expires, or None if that is not known.

        A time that has passed already, or that is further away than any URL lives, says more about clocks than about URLs.
        """
        if expires_at is None:
            return None
        lifetime = expires_at / 1000 - self.server
        return self.local + lifetime if 0 < lifetime <= LONGEST_LIFETIME else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from a Retry-After that is a number or a date. A date is compared with the server's own clock."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return min(float(value), LONGEST_RETRY_AFTER)
    when = _date(value)
    if when is None:
        return None
    now = _date(headers.get("date"))
    return min(max(0.0, when - (now if now is not None else time.time())), LONGEST_RETRY_AFTER)


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
