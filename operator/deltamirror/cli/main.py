"""The commands, their options and their exit status.

0 done, or nothing to do · 2 bad input · 3 needs a person · 4 worth trying again
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from deltamirror import __version__, api
from deltamirror.api.units import human
from deltamirror.cli.bars import Bars
from deltamirror.cli.pages import catalog_tree, probe_table
from deltamirror.cli.words import count, describe_audit, describe_plan, describe_result
from deltamirror.delta import features
from deltamirror.errors import Fault, Kind
from deltamirror.mirror import Settings, Sync, cleanup
from deltamirror.mirror.probe import probe as find_out
from deltamirror.sharing import Profile, ProfileInvalid, SharingClient, TableName
from deltamirror.store import S3Options, Store, open_store

_manifest = click.option(
    "-f",
    "--filename",
    type=click.Path(path_type=Path),
    required=True,
    help="Manifest with a SharedTable.",
)
_profile = click.option(
    "--profile",
    type=click.Path(path_type=Path),
    envvar="DELTA_SHARING_PROFILE",
    help="Profile file of the provider, in place of the Secret that a cluster would read. [env: DELTA_SHARING_PROFILE]",
)
_output = click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="deltamirror")
def cli() -> None:
    """Your own Delta table of a table that somebody shares with you."""


@cli.command()
@_manifest
@_profile
@_output
@click.option("--full", is_flag=True, help="List the source even if its version stands still.")
def sync(filename: Path, profile: Path | None, output: str, full: bool) -> None:
    """Make the mirror equal to its source, once.

    Credentials of the destination come from the environment (AWS_ACCESS_KEY_ID, …).
    """
    shared = api.load(filename)
    store = _store(shared)
    with _client(profile) as client, Bars(_console()) as bars:
        _say(f"[bold]{shared.table}[/] → [bold]{shared.spec.destination.uri}[/]")
        result = Sync(client, store, Settings.of(shared), bars).run(full=full)
    if output == "json":
        click.echo(json.dumps(result.to_dict()))
    _say(describe_result(result))


@cli.command()
@_manifest
@_profile
@_output
def plan(filename: Path, profile: Path | None, output: str) -> None:
    """Show what a sync would do, without doing it."""
    shared = api.load(filename)
    store = _store(shared)
    with _client(profile) as client:
        planned = Sync(client, store, Settings.of(shared)).plan()
    if output == "json":
        click.echo(
            json.dumps(
                {
                    "sourceVersion": planned.source_version,
                    "filesToCopy": planned.files_to_copy,
                    "bytesToCopy": planned.bytes_to_copy,
                    "deletionVectorsToCopy": len(planned.vectors),
                    "filesAdded": planned.added,
                    "filesChanged": planned.log_entries - planned.added,
                    "filesRemoved": planned.removes,
                    "schemaChange": planned.metadata is not None,
                    "dropped": planned.dropped,
                }
            )
        )
    else:
        click.echo(describe_plan(planned))


@cli.command()
@_manifest
@_profile
@_output
@click.option("--repair", is_flag=True, help="Copy damaged objects again and make the mirror equal to its source.")
def audit(filename: Path, profile: Path | None, output: str, repair: bool) -> None:
    """Compare a whole mirror with its source and its store: files, sizes, rows, deletion vectors.

    Exit status 3 if something is wrong and was not repaired.
    """
    shared = api.load(filename)
    store = _store(shared)
    with _client(profile) as client:
        found = Sync(client, store, Settings.of(shared)).audit(repair=repair)
    click.echo(json.dumps(found.to_dict()) if output == "json" else describe_audit(found, repaired=repair))
    if not found.clean and not repair:
        sys.exit(3)


@cli.command()
@_manifest
@_output
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option(
    "--now",
    is_flag=True,
    help="Erase everything that the newest version does not need, whatever its age. Suspend the SharedTable first.",
)
def gc(filename: Path, output: str, dry_run: bool, now: bool) -> None:
    """Delete what nobody needs any more: removed files beyond their retention, leftovers of syncs that died, old log files."""
    shared = api.load(filename)
    store, settings = _store(shared), Settings.of(shared)
    if dry_run:
        found = list(
            cleanup.garbage(
                store, 0 if now else settings.removed_files_seconds, timedelta(0) if now else cleanup.ORPHANS_FOR
            )
        )
        done = cleanup.Cleaned(len(found), sum(item.size for item in found), 0, 0)
        for item in found if output == "text" else ():
            click.echo(f"{item.size:>14,}  {item.path}")
    elif now:
        done = cleanup.erase(store)
    else:
        done = cleanup.clean(store, settings.removed_files_seconds, settings.log_seconds)
    if output == "json":
        click.echo(json.dumps({**asdict(done), "dryRun": dry_run}))
    else:
        would = "would delete" if dry_run else "deleted"
        click.echo(
            f"{would} {count(done.objects, 'object')} ({human(done.bytes)}), {count(done.log_files, 'log file')}"
        )


@cli.command("list")
@_profile
@_output
def list_tables(profile: Path | None, output: str) -> None:
    """Show the shares, schemas and tables of a provider."""
    with _client(profile) as client:
        shares = {
            share.name: sorted(client.all_tables(share.name), key=lambda t: (t.schema, t.name))
            for share in client.shares()
        }
    if output == "json":
        rows = [
            {"share": t.share, "schema": t.schema, "table": t.name, "id": t.id} for ts in shares.values() for t in ts
        ]
        click.echo(json.dumps(rows))
    else:
        Console().print(catalog_tree(shares))


@cli.command()
@_profile
@_output
@click.argument("table", metavar="SHARE.SCHEMA.TABLE")
def probe(table: str, profile: Path | None, output: str) -> None:
    """Find out what a provider can do for a table, and which kinds of mirror follow."""
    parts = table.split(".")
    if len(parts) < 3:
        raise click.UsageError(f"{table!r} is not of the form share.schema.table")
    name = TableName(".".join(parts[:-2]), parts[-2], parts[-1])  # only the share may have dots in its name
    with _client(profile) as client:
        report = find_out(client, name)
    if output == "json":
        click.echo(json.dumps(report.to_dict()))
    else:
        Console().print(probe_table(report))


@cli.command()
@click.option("--namespace", "-n", "namespaces", multiple=True, help="Namespace to look after; may be repeated.")
@click.option("--all-namespaces", "-A", is_flag=True, help="Look after all namespaces.")
@click.option(
    "--workers", type=click.IntRange(1, 256), default=16, show_default=True, help="SharedTables worked on at once."
)
@click.option(
    "--cluster-id", default="", help="Name of this cluster in the mirrors it owns. [default: uid of kube-system]"
)
@click.option(
    "--allow-file-destinations", is_flag=True, help="Accept file: destinations, in the operator's own file system."
)
@click.option("--probe-port", type=int, help="Serve /healthz and /readyz on this port.")
@click.option("--metrics-port", type=int, help="Serve Prometheus metrics on this port.")
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address of the two ports.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True)
def operator(
    namespaces: tuple[str, ...],
    all_namespaces: bool,
    workers: int,
    cluster_id: str,
    allow_file_destinations: bool,
    probe_port: int | None,
    metrics_port: int | None,
    listen: str,
    log_level: str,
) -> None:
    """Run the operator: what the pod runs."""
    if bool(namespaces) == all_namespaces:
        raise click.UsageError("say which namespaces to look after: --namespace NAME, or --all-namespaces")
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    from deltamirror.controller import (
        operator as controller,  # kopf and the Kubernetes client: only the operator needs them
    )

    controller.run(
        controller.Options(
            namespaces=namespaces,
            workers=workers,
            cluster_id=cluster_id,
            allow_file_destinations=allow_file_destinations,
            probe_address=(listen, probe_port) if probe_port is not None else None,
            metrics_address=(listen, metrics_port) if metrics_port is not None else None,
        )
    )


def run() -> None:
    """The entry point: faults become a sentence and an exit status, never a traceback."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _say("[yellow]stopped[/]; a sync that is started again goes on where this one was")
        sys.exit(130)
    except Fault as fault:
        _console().print(f"[bold red]error:[/] {fault}", highlight=False, soft_wrap=True)
        sys.exit(exit_status(fault))


def exit_status(fault: Fault) -> int:
    if isinstance(fault, (api.ManifestError, ProfileInvalid)):
        return 2
    return 3 if fault.kind is Kind.STALLING else 4


def _client(profile: Path | None) -> SharingClient:
    if profile is None:
        raise ProfileInvalid("which provider? give its profile file with --profile, or in DELTA_SHARING_PROFILE")
    return SharingClient(Profile.from_file(profile), features.readable())


def _store(shared: api.SharedTable) -> Store:
    destination = shared.spec.destination
    options = S3Options(destination.s3.endpoint, destination.s3.region, destination.s3.kms_key_id)
    return open_store(destination.uri, environment=os.environ, s3=options)


def _console() -> Console:
    """People read on standard error; standard output is for what was asked for."""
    return Console(stderr=True)


def _say(text: str) -> None:
    _console().print(text, highlight=False, soft_wrap=True)
