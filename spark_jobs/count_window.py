"""Counts a mirror before and after a window and prints the result as one line of JSON.

spark-submit count_window.py --table s3a://lake/mirrors/orders --from 3 --to 5 --kind Incremental
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

import mirror_reader


def count(spark: SparkSession, window: mirror_reader.Window) -> dict[str, Any]:
    before = 0 if window.before is None else mirror_reader.read(spark, window.table, window.before).count()
    rows = mirror_reader.read(spark, window.table, window.to_version).count()
    return {
        "from": window.from_version,
        "to": window.to_version,
        "kind": window.kind,
        "rows": rows,
        "rowsBefore": before,
    }


if __name__ == "__main__":
    print(json.dumps(count(mirror_reader.session("count_window"), mirror_reader.Window.from_arguments())))
