"""Plans and results in words."""

from __future__ import annotations

from deltamirror.api.units import human
from deltamirror.mirror import Plan, SyncResult


def describe_plan(plan: Plan) -> str:
    steps = []
    if plan.files:
        steps.append(f"copy {count(len(plan.files), 'data file')} ({human(plan.bytes_to_copy)})")
    if plan.vectors:
        steps.append(f"copy {count(len(plan.vectors), 'deletion vector file')}")
    if plan.adds or plan.removes:
        steps.append(f"add {len(plan.adds)} and remove {len(plan.removes)} log entries")
    if plan.metadata is not None or plan.protocol is not None:
        steps.append("write metadata")
    text = f"source version {plan.source_version}: " + (", ".join(steps) or "nothing to do")
    if plan.dropped:
        text += f"\n  not mirrored: {', '.join(plan.dropped)}"
    return text


def describe_result(result: SyncResult) -> str:
    table = f"{count(result.files, 'file')}, {human(result.bytes)}"
    if result.deletionVectors:
        table += f", {count(result.deletionVectors, 'deletion vector')}"
    if result.rows is not None:
        table += f", {result.rows:,} rows"
    if not result.commits:
        return f"  up to date: mirror version {result.mirrorVersion} is source version {result.sourceVersion} ({table})"
    speed = (
        f" at {human(result.bytesCopied / result.seconds)}/s" if result.seconds and result.bytesCopied > 1 << 20 else ""
    )
    return (
        f"  [green]done[/]: mirror version {result.mirrorVersion} is source version {result.sourceVersion} ({table});"
        f" copied {human(result.bytesCopied)}{speed}, {result.seconds:.1f} s"
    )


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
