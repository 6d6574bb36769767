"""The engine: makes a Delta table of our own equal to a shared one. No Kubernetes in here.

    open the mirror's log ─► ask the source ─► plan ─► copy ─► verify ─► commit ─► checkpoint

`sync` is a function of (spec, source, mirror log), so it may run in the operator, in a Job pod, on Spark or in a shell.
"""

from deltamirror.mirror.errors import MirrorError
from deltamirror.mirror.plan import Plan
from deltamirror.mirror.progress import Progress
from deltamirror.mirror.settings import Settings
from deltamirror.mirror.sync import Sync, SyncResult

__all__ = ["MirrorError", "Plan", "Progress", "Settings", "Sync", "SyncResult"]
