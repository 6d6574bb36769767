"""Tables that Spark wrote, and what the reference sharing server answered for them. See README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent
TABLES = DATA / "tables"
RECORDINGS = DATA / "recordings"


def expected(table: str) -> dict[int, dict[str, Any]]:
    """Rows and row hash of each version of a table, as Spark counted them when the table was made."""
    content = json.loads((TABLES / f"{table}.expected.json").read_text())
    return {int(version): facts for version, facts in content["versions"].items()}


def tables() -> list[str]:
    """Tables with an expected.json, by name."""
    return sorted(path.name.removesuffix(".expected.json") for path in TABLES.glob("*.expected.json"))
