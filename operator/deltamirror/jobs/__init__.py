"""Users' Spark jobs: which window of mirror versions each is to read next, and the objects that run them.

Pure: this room says what should be there; the controller talks to the cluster.
"""

from deltamirror.jobs.batch_job import manifest, outcome
from deltamirror.jobs.windows import Launch, Outcome, Step, Window, advance

__all__ = ["Launch", "Outcome", "Step", "Window", "advance", "manifest", "outcome"]
