"""What Prometheus can ask."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SYNCS = Counter("deltamirror_syncs", "Syncs by result.", ["result"])
TABLES = Gauge("deltamirror_tables", "SharedTables that this operator looks after.")
