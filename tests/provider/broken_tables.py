"""Tables that the reference server refuses in part or in whole.

The recorded ones were not kept: these have the same metadata and the same defect under the same name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Action = dict[str, Any]

_SCHEMA: Action = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "p", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def _protocol(*reader_features: str) -> Action:
    if not reader_features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    features = list(reader_features)
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": features, "writerFeatures": features}}


def _metadata(**configuration: str) -> Action:
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


def _add(path: str, vector: Action | None = None) -> Action:
    add: Action = {
        "path": path,
        "partitionValues": {},
        "size": 10,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords":5}',
    }
    return {"add": {**add, "deletionVector": vector} if vector else add}


def _vector(storage_type: str, path_or_inline: str, **place: int) -> Action:
    return {"storageType": storage_type, "pathOrInlineDv": path_or_inline, "cardinality": 6, "sizeInBytes": 40, **place}


_WITH_VECTORS = [_protocol("deletionVectors"), _metadata(enableDeletionVectors="true")]
# The name in the recordings: the commits.
_TABLES: dict[str, dict[int, list[Action]]] = {
    "variant": {0: [_protocol("variantType"), _metadata(), _add("a.parquet")]},
    "h_inline": {
        0: [*_WITH_VECTORS, _add("a.parquet", _vector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"))]
    },
    "h_p": {0: [*_WITH_VECTORS, _add("a.parquet", _vector("p", "s3://elsewhere/deletion_vector.bin", offset=4))]},
    "h_abs": {0: [_protocol(), _metadata(), _add("s3://elsewhere/a.parquet")]},
    "h_unk": {0: [_protocol("someFutureFeature"), _metadata(), _add("a.parquet")]},
    "h_gap": {0: [_protocol(), _metadata(), _add("a.parquet")], 2: [_add("c.parquet")]},
    "h_propoff": {
        0: [
            _protocol("deletionVectors"),
            _metadata(),
            _add("a.parquet", _vector("u", "ab^-aqEH.-t@S}K{vb[*k^", offset=4)),
        ]
    },
}


def make(folder: Path) -> None:
    """Writes the logs; the files that they name are never asked for."""
    for name, commits in _TABLES.items():
        log = folder / name / "_delta_log"
        log.mkdir(parents=True)
        for version, actions in commits.items():
            lines = "".join(f"{json.dumps(action)}\n" for action in actions)
            (log / f"{version:020d}.json").write_text(lines, encoding="utf-8")


NAMES = list(_TABLES)
