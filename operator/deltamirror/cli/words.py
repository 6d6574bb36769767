"""Plans and results in words."""

from __future__ import annotations

from deltamirror.api.units import human
from deltamirror.mirror import Plan, SyncResult
from deltamirror.mirror.audit import Audit


def describe_plan(plan: Plan) -> str:
    steps = []
    if plan.files_to_copy:
        steps.append(f"copy {count(plan.files_to_copy, 'data file')} ({human(plan.bytes_to_copy)})")
    if plan.vectors:
        steps.append(f"copy {count(len(plan.vectors), 'deletion vector file')}")
    new = plan.added
    changes = {"added": new, "changed": plan.log_entries - new, "removed": plan.removes, "restored": plan.restored}
    if said := [f"{number:,} {word}" for word, number in changes.items() if number]:
        steps.append(f"files: {', '.join(said)}")
    if plan.metadata is not None or plan.protocol is not None:
        steps.append("write metadata")
    text = f"source version {plan.source_version}: " + ("; ".join(steps) or "nothing to do")
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


_FINDINGS = {
    "missing": "data files are missing from the store",
    "wrongSize": "data files have the wrong size",
    "corrupt": "data files are no Parquet files",
    "vectorMissing": "deletion vector files are missing from the store",
    "vectorCorrupt": "deletion vector files are damaged",
    "notInMirror": "files of the source are not in the mirror",
    "notInSource": "files of the mirror are not in the source",
    "outdated": "entries of the log are out of date",
}


def describe_audit(audit: Audit, *, repaired: bool) -> str:
    table = f"{count(audit.files, 'file')}, {human(audit.bytes)}, {count(audit.deletionVectors, 'deletion vector')}"
    lines = [f"mirror version {audit.mirrorVersion} against source version {audit.sourceVersion}: {table}"]
    for kind, number in audit.findings.items():
        lines.append(f"  {number:,} {_FINDINGS[kind]}")
        lines += [f"      {path}" for path in audit.examples[kind][:5]]
    if audit.clean:
        lines.append("  everything is as it should be")
    elif repaired:
        lines.append("  repaired")
    else:
        lines.append("  run again with --repair to mend it")
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
