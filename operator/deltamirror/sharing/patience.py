"""How long a server is waited for.

HTTP clients start their read timeout anew with every byte, so a server that sends one now and then is waited for without end.
"""

from __future__ import annotations

import math
import time


class Patience:
    """A timeout in seconds that shrinks: at most `idle` for the next bytes, and none at all after `deadline` (monotonic).

    Both HTTP clients hand a timeout on to the socket each time they are about to wait, and a socket takes whatever has an index.
    """

    def __init__(self, deadline: float, idle: float) -> None:
        self._deadline = deadline
        self._idle = idle

    def __index__(self) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return math.ceil(min(left, self._idle))

    def __le__(self, seconds: float) -> bool:
        """urllib3 wants to know whether a timeout is above zero."""
        return int(self) <= seconds
