"""Progress of a sync on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichProgress

from deltamirror.cli.words import describe_plan
from deltamirror.mirror import Plan, Progress


class Bars(Progress):
    """One bar of bytes, one count of files; shown only while something is copied, and only on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bytes = RichProgress(
            TextColumn("  copying"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TextColumn("· {task.fields[done]}/{task.fields[files]} files ·"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._done = 0

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._bytes.stop()

    def planned(self, plan: Plan) -> None:
        self._console.print(f"  {describe_plan(plan)}", highlight=False, soft_wrap=True)
        if plan.files_to_copy or plan.vectors:
            self._task = self._bytes.add_task(
                "copy", total=plan.bytes_to_copy, done=0, files=plan.files_to_copy + len(plan.vectors)
            )
            self._bytes.start()

    def copied(self, size: int) -> None:
        if self._task is not None:
            self._bytes.advance(self._task, size)

    def file_done(self) -> None:
        self._done += 1
        if self._task is not None:
            self._bytes.update(self._task, done=self._done)
