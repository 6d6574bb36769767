"""Tables that the reference server refuses in part or in whole.

The recorded ones were not kept: these have the same metadata and the same defect under the same name.
"""

from __future__ import annotations

from pathlib import Path

from tests.provider.hand_written import Action, add, metadata, protocol, vector, write

INLINE = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"

_WITH_VECTORS = [protocol("deletionVectors"), metadata(enableDeletionVectors="true")]
# The name in the recordings: the commits.
_TABLES: dict[str, dict[int, list[Action]]] = {
    "variant": {0: [protocol("variantType"), metadata(), add("a.parquet")]},
    "h_inline": {0: [*_WITH_VECTORS, add("a.parquet", vector("i", INLINE))]},
    "h_p": {0: [*_WITH_VECTORS, add("a.parquet", vector("p", "s3://elsewhere/deletion_vector.bin", offset=4))]},
    "h_abs": {0: [protocol(), metadata(), add("s3://elsewhere/a.parquet")]},
    "h_unk": {0: [protocol("someFutureFeature"), metadata(), add("a.parquet")]},
    "h_gap": {0: [protocol(), metadata(), add("a.parquet")], 2: [add("c.parquet")]},
    "h_propoff": {
        0: [
            protocol("deletionVectors"),
            metadata(),
            add("a.parquet", vector("u", "ab^-aqEH.-t@S}K{vb[*k^", offset=4)),
        ]
    },
}
NAMES = list(_TABLES)


def make(folder: Path) -> None:
    for name, commits in _TABLES.items():
        write(folder / name, commits)
