"""The Delta transaction log: actions, replay, commits, checkpoints, deletion vectors, features.

Written by hand because no library can: delta-rs has no way to commit an add or a remove that carries a
deletion vector, and Spark would need a JVM per sync. Knows nothing of sharing.
"""
