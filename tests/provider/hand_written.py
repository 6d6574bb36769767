"""Delta logs written by hand, for histories and defects that no writer gives on demand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

Action = dict[str, Any]

_SCHEMA: Action = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "p", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def protocol(*reader_features: str) -> Action:
    if not reader_features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    features = list(reader_features)
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": features, "writerFeatures": features}}


def metadata(**configuration: str) -> Action:
    properties = {f"delta.{name}": value for name, value in configuration.items()}
    return {
        "metaData": {
            "id": "m1",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(_SCHEMA),
            "partitionColumns": [],
            "configuration": properties,
            "createdTime": 1,
        }
    }


def add(path: str, vector: Action | None = None, **more: Any) -> Action:
    action: Action = {
        "path": path,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords":5}',
        **more,
    }
    return {"add": {**action, "deletionVector": vector} if vector else action}


def remove(path: str, vector: Action | None = None, **more: Any) -> Action:
    action: Action = {
        "path": path,
        "deletionTimestamp": 1,
        "dataChange": True,
        "partitionValues": {},
        "size": 10,
        **more,
    }
    return {"remove": {**action, "deletionVector": vector} if vector else action}


def change_file(path: str) -> Action:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 10, "dataChange": False}}


def commit_info(operation: str, **metrics: str) -> Action:
    return {"commitInfo": {"timestamp": 1, "operation": operation, "operationMetrics": metrics}}


def vector(storage_type: str, path_or_inline: str, **place: int) -> Action:
    return {"storageType": storage_type, "pathOrInlineDv": path_or_inline, "cardinality": 6, "sizeInBytes": 40, **place}


def write(folder: Path, commits: Mapping[int, Sequence[Action]]) -> Path:
    """Writes the log alone; the files that it names are not there."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version, actions in commits.items():
        lines = "".join(f"{json.dumps(action)}\n" for action in actions)
        (log / f"{version:020d}.json").write_text(lines, encoding="utf-8")
    return folder


def checkpoint(folder: Path) -> None:
    """Of the newest version, in the classic form, by another writer."""
    DeltaTable(folder).create_checkpoint()
