"""The main job on embedded parts: a provider over a folder, a living table with deletes, a mirror, a PySpark job.

No cluster and no object store: the mirror goes into a folder. Everything else is what a cluster runs: the sharing
protocol over HTTP, `deltamirror sync` on a manifest, and spark_jobs/count_window.py on each window of new versions.
Exit status 0 only if Spark counts the same rows in the mirror as in the source after every step.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in ("examples/provider", "toolchain", "spark_jobs"):
    sys.path.insert(0, str(ROOT / folder))

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import count_window  # noqa: E402
import mirror_reader  # noqa: E402
import tools  # noqa: E402
from sharing_provider import parse, serve  # noqa: E402

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

STORY = [
    ("An order book is shared", None),
    ("Orders are deleted at the source", "DELETE FROM delta.`{source}` WHERE id % 7 = 0"),
    ("Prices are corrected", "UPDATE delta.`{source}` SET amount = amount * 1.1 WHERE country = 'DE' AND id % 5 = 0"),
    ("New orders arrive", "INSERT INTO delta.`{source}` " + "{orders}"),
    ("The provider compacts its files", "OPTIMIZE delta.`{source}`"),
    ("And deletes again", "DELETE FROM delta.`{source}` WHERE country = 'FR' AND amount < 100"),
]

MANIFEST = """\
apiVersion: deltamirror.io/v1alpha1
kind: SharedTable
metadata: {{name: orders, namespace: analytics}}
spec:
  source:
    profileSecretRef: {{name: acme, key: profile.json}}
    share: sales
    schema: retail
    table: orders
  destination:
    uri: file://{mirror}
"""


@dataclass(frozen=True)
class Step:
    title: str
    sync: dict[str, Any]
    source_rows: int
    window: dict[str, Any]

    @property
    def agrees(self) -> bool:
        return bool(self.source_rows == self.window["rows"] == self.sync["rows"])


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="deltamirror-demo-") as folder:
        steps = tell(Path(folder))
    console.print(summary(steps))
    agreed = all(step.agrees for step in steps)
    seconds = time.monotonic() - started
    if agreed:
        console.print(
            f"[green]✓[/] the mirror had the rows of its source after each of {len(steps)} steps ({seconds:.0f} s)"
        )
        console.print("  Next: [bold]make test[/], or the manifests in examples/ for a cluster.")
    else:
        console.print("[bold red]✗ source and mirror disagree[/]")
    return 0 if agreed else 1


def tell(folder: Path) -> list[Step]:
    source, mirror = folder / "provider" / "orders", folder / "lake" / "orders"
    with console.status("starting Spark …"), quiet(folder / "spark.log"):
        spark = start_spark(folder)
    try:
        with console.status("writing the provider's table …"):
            spark.sql(
                f"CREATE TABLE delta.`{source}` (id BIGINT, country STRING, amount DOUBLE, placed TIMESTAMP)"
                " USING delta PARTITIONED BY (country) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            )
            spark.sql(f"INSERT INTO delta.`{source}` {orders(0, 20_000)}")
        shared = (
            "{bearerToken: demo, shares: [{name: sales, schemas: [{name: retail, tables:"
            f" [{{name: orders, location: 'file://{source}'}}]}}]}}]}}"
        )
        with serve(parse(shared)) as provider:
            (folder / "profile.json").write_text(json.dumps(provider.profile()))
            (folder / "orders.yaml").write_text(MANIFEST.format(mirror=mirror))
            console.print(f"[bold]Provider[/]  {provider.endpoint} shares [cyan]sales.retail.orders[/]")
            console.print("[bold]Manifest[/]  deltamirror sync -f orders.yaml\n")
            steps: list[Step] = []
            for number, (title, sql) in enumerate(STORY, 1):
                console.rule(f"[bold]{number}. {title}", align="left", style="dim")
                if sql is not None:
                    statement = sql.format(source=source, orders=orders(20_000, 5_000))
                    console.print(f"  [dim]{statement.replace(f'delta.`{source}`', 'orders').split(' SELECT')[0]}[/]")
                    spark.sql(statement)
                steps.append(follow(spark, folder, title, source, mirror, steps))
            return steps
    finally:
        spark.stop()


def follow(spark: SparkSession, folder: Path, title: str, source: Path, mirror: Path, before: list[Step]) -> Step:
    """One sync, then the PySpark job on the window that it opened."""
    sync = run_sync(folder)
    first = before[-1].sync["mirrorVersion"] + 1 if before else 0
    window = mirror_reader.Window(
        str(mirror), min(first, sync["mirrorVersion"]), sync["mirrorVersion"], "Incremental" if before else "Initial"
    )
    counted = count_window.count(spark, window)
    source_rows = spark.read.format("delta").load(str(source)).count()
    agree = "[green]=[/]" if source_rows == counted["rows"] else "[bold red]≠[/]"
    console.print(
        f"  Spark     window [{window.from_version}, {window.to_version}] {window.kind}: {counted['rowsBefore']:,} rows before,"
        f" {counted['rows']:,} after {agree} {source_rows:,} at the source\n"
    )
    return Step(title, sync, source_rows, counted)


def run_sync(folder: Path) -> dict[str, Any]:
    sys.stdout.flush()
    command = [str(Path(sys.executable).with_name("deltamirror")), "sync", "-f", "orders.yaml", "--output", "json"]
    done = subprocess.run(
        [*command, "--profile", "profile.json"], cwd=folder, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"deltamirror sync ended with status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def start_spark(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.extraClassPath": f"{tools.path('spark-jars')}/*",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    return mirror_reader.session("deltamirror demo", **settings)


@contextlib.contextmanager
def quiet(path: Path) -> Iterator[None]:
    """The JVM started in here writes its chatter into a file, which is shown only if the start fails."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.write(stderr, path.read_bytes()[-4000:])
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def orders(first: int, count: int) -> str:
    return (
        f"SELECT id, element_at(array('DE', 'FR', 'US'), cast(id % 3 AS int) + 1) AS country, id % 997 * 1.25 AS amount,"
        f" timestamp_seconds(1700000000 + id * 60) AS placed FROM range({first}, {first + count})"
    )


def summary(steps: list[Step]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("step")
    for name in ("source version", "data files", "deletion vectors", "bytes copied", "source rows", "mirror rows"):
        table.add_column(name, justify="right")
    for step in steps:
        colour = "green" if step.agrees else "bold red"
        table.add_row(
            step.title,
            str(step.sync["sourceVersion"]),
            str(step.sync["filesCopied"]),
            str(step.sync["deletionVectorsCopied"]),
            f"{step.sync['bytesCopied']:,}",
            f"{step.source_rows:,}",
            f"[{colour}]{step.window['rows']:,}[/]",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
