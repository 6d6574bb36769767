"""A sync that dies by SIGKILL at its n-th write to the store: what tests/integration/test_kill.py runs in a process of its own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from deltamirror.delta import features
from deltamirror.mirror import Settings, Sync
from deltamirror.sharing import Profile, SharingClient
from deltamirror.store import Store, open_store


def sync_and_die(profile: dict[str, Any], uri: str, settings: Settings, writes: int, after: bool) -> None:
    """Dies before, or right after, the write with this number; ends well if there are not that many."""
    lock = threading.Lock()
    count = [0]

    def deadly(write: Callable[..., Any]) -> Callable[..., Any]:
        def attempt(*arguments: Any, **options: Any) -> Any:
            with lock:  # writes one at a time, so that "the n-th" means something
                count[0] += 1
                last = count[0] == writes
                if last and not after:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = write(*arguments, **options)
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

        return attempt

    for name in ("put", "put_if_absent", "delete"):
        setattr(Store, name, deadly(getattr(Store, name)))
    with SharingClient(Profile.from_dict(profile), features.readable()) as client:
        Sync(client, open_store(uri, environment={}), settings).run()
