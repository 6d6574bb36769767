"""The feature policy: what a mirror does with each table feature and each `delta.*` property of its source.

A mirror sees its source through a sharing server, so it gets files and metadata, but no commitInfo, no domain
metadata, no row ids. A feature whose promises need those is dropped, one that changes how files are read is copied, and one
that nobody here knows how to read is refused. Three rules hold it together:

- a writer feature is dropped only together with what activates it, because Spark refuses to read a table whose
  metadata uses a feature that its protocol does not list;
- within the life of a mirror the list only grows, because older versions stay readable by time travel;
- a protocol raised to table features lists every feature that the legacy version numbers implied.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from deltamirror.delta.actions import Protocol
from deltamirror.delta.errors import UnsupportedFeature


class Policy(enum.StrEnum):
    COPY = "copy"
    DROP = "drop"
    REFUSE = "refuse"
    OURS = "ours"
    """Set by the mirror for itself, whatever the source says."""


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    policy: Policy
    why: str
    reader: bool = False
    activated_by: str | None = None
    """The property without which the feature does nothing: then it is the property that is missed, not the feature."""


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    """A property, or a family of them where it ends in a dot."""
    policy: Policy
    why: str


def _reader(policy: Policy, why: str, *names: str, by: str | None = None) -> list[Feature]:
    return [Feature(name, policy, why, reader=True, activated_by=by) for name in names]


def _writer(policy: Policy, why: str, *names: str, by: str | None = None) -> list[Feature]:
    return [Feature(name, policy, why, activated_by=by) for name in names]


_ACTIVE = "binds writers only, and must stay listed while schema or properties use it"
_ICEBERG = "describes the source's own Iceberg metadata, which is not mirrored"
_ROW_IDS = "needs row ids and a high-water mark, which sharing does not send"
_CATALOG = "binds the source to its catalog; the mirror is a table of its own"

FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in [
        *_reader(Policy.COPY, "its vectors are copied byte for byte, under names of our own", "deletionVectors"),
        *_reader(Policy.COPY, "files carry physical names", "columnMapping"),
        *_reader(Policy.COPY, "a type that files contain", "timestampNtz"),
        *_reader(Policy.COPY, "older files keep their narrower types", "typeWidening", "typeWidening-preview"),
        *_reader(
            Policy.COPY,
            "a type or layout that files contain",
            *("variantType", "variantType-preview", "variantShredding", "variantShredding-preview", "geospatial"),
        ),
        *_reader(
            Policy.DROP,
            "the mirror writes checkpoints of its own, of the classic kind",
            "v2Checkpoint",
            by="delta.checkpointPolicy",
        ),
        *_reader(Policy.DROP, "says nothing about reading, and some readers refuse it", "vacuumProtocolCheck"),
        *_reader(Policy.DROP, _CATALOG, "catalogManaged", "catalogOwned-preview"),
        *_reader(Policy.REFUSE, "changes what a log means", "adaptiveMetadata-preview"),
        *_writer(Policy.DROP, "the mirror has to follow deletes", "appendOnly", by="delta.appendOnly"),
        *_writer(
            Policy.COPY,
            _ACTIVE,
            *("invariants", "checkConstraints", "generatedColumns", "identityColumns", "allowColumnDefaults"),
        ),
        *_writer(
            Policy.DROP,
            "change files are not mirrored in Snapshot mode",
            "changeDataFeed",
            by="delta.enableChangeDataFeed",
        ),
        *_writer(Policy.DROP, _ROW_IDS, "rowTracking", by="delta.enableRowTracking"),
        *_writer(Policy.DROP, "domains are not shared", "domainMetadata"),
        *_writer(Policy.DROP, "clustering columns are not shared; files stay clustered as they are", "clustering"),
        *_writer(
            Policy.DROP,
            _ICEBERG,
            *(
                "icebergCompatV1",
                "icebergCompatV2",
                "icebergCompatV3",
                "icebergWriterCompatV1",
                "icebergWriterCompatV3",
            ),
        ),
        *_writer(
            Policy.DROP,
            "commit times of the mirror are its own",
            "inCommitTimestamp",
            by="delta.enableInCommitTimestamps",
        ),
        *_writer(
            Policy.DROP,
            "names versions of the source",
            "checkpointProtection",
            by="delta.requireCheckpointProtectionBeforeVersion",
        ),
        *_writer(Policy.DROP, "binds writers only", "materializePartitionColumns"),
        *_writer(
            Policy.DROP, "binds writers only; the schema keeps its collations", "collations", "collations-preview"
        ),
        *_writer(Policy.DROP, _CATALOG, "coordinatedCommits-preview", "managedCommit-preview"),
    ]
}


def _properties(policy: Policy, why: str, *names: str) -> list[Property]:
    return [Property(f"delta.{name}", policy, why) for name in names]


PROPERTIES: dict[str, Property] = {
    prop.name: prop
    for prop in [
        *_properties(Policy.COPY, "says how files are read", "columnMapping.mode", "columnMapping.maxColumnId"),
        *_properties(
            Policy.COPY,
            "belongs to a feature that is copied",
            *("enableDeletionVectors", "enableTypeWidening", "enableVariantShredding", "constraints."),
        ),
        *_properties(
            Policy.COPY,
            "a habit of writers, harmless in a mirror",
            *("dataSkippingNumIndexedCols", "dataSkippingStatsColumns", "targetFileSize", "tuneFileSizesForRewrites"),
            *("randomizeFilePrefixes", "randomPrefixLength", "isolationLevel", "parquet."),
        ),
        *_properties(
            Policy.OURS,
            "the mirror keeps, checkpoints and cleans its log by its own retention",
            *("logRetentionDuration", "deletedFileRetentionDuration", "enableExpiredLogCleanup"),
            *("checkpointInterval", "checkpointRetentionDuration", "enableFullRetentionRollback"),
            *("setTransactionRetentionDuration", "checkpoint.writeStatsAsJson", "checkpoint.writeStatsAsStruct"),
        ),
        *_properties(Policy.OURS, "the mirror is not optimised on its own", "autoOptimize", "autoOptimize."),
        *_properties(Policy.DROP, "the mirror has to follow deletes", "appendOnly"),
        *_properties(Policy.DROP, "change files are not mirrored in Snapshot mode", "enableChangeDataFeed"),
        *_properties(Policy.DROP, _ROW_IDS, "enableRowTracking", "rowTrackingSuspended", "rowTracking."),
        *_properties(Policy.DROP, "the mirror writes checkpoints of the classic kind", "checkpointPolicy"),
        *_properties(
            Policy.DROP,
            "commit times of the mirror are its own",
            *("enableInCommitTimestamps", "inCommitTimestampEnablementVersion", "inCommitTimestampEnablementTimestamp"),
        ),
        *_properties(
            Policy.DROP,
            _ICEBERG,
            *("enableIcebergCompatV1", "enableIcebergCompatV2", "enableIcebergCompatV3", "universalFormat."),
            *("enableIcebergWriterCompatV1", "enableIcebergWriterCompatV3"),
        ),
        *_properties(Policy.DROP, "names versions of the source", "requireCheckpointProtectionBeforeVersion"),
        *_properties(
            Policy.DROP,
            _CATALOG,
            *("coordinatedCommits.", "managedCommits.", "lastCommitTimestamp", "lastUpdateVersion"),
        ),
        *_properties(Policy.DROP, "writes manifests into the table", "compatibility.symlinkFormatManifest.enabled"),
        *_properties(
            Policy.DROP, "a request to writers, not a state", "feature.", "minReaderVersion", "minWriterVersion"
        ),
    ]
}

PROTECTION = "deltamirror.readOnly"
"""A writer feature that no engine knows: all of them read a table that lists it, and refuse to write to it."""

_LEGACY_READER: dict[int, tuple[str, ...]] = {2: ("columnMapping",)}
_LEGACY_WRITER: dict[int, tuple[str, ...]] = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}


def readable() -> list[str]:
    """The reader features that a mirror can take over, to be told to the sharing server."""
    return [f.name for f in FEATURES.values() if f.reader and f.policy is not Policy.REFUSE]


def supported(protocol: Protocol) -> set[str]:
    """Every feature that a protocol supports, by name or by what its version numbers imply."""
    features = set(protocol.reader_features or []) | set(protocol.writer_features or [])
    if protocol.min_reader_version < 3:
        features |= {f for v, names in _LEGACY_READER.items() if v <= protocol.min_reader_version for f in names}
    if protocol.min_writer_version < 7:
        features |= {f for v, names in _LEGACY_WRITER.items() if v <= protocol.min_writer_version for f in names}
    return features


def mirror_protocol(
    source: Protocol, previous: Protocol | None, *, protected: bool = False
) -> tuple[Protocol, list[str]]:
    """The protocol of a mirror, and the names of the features of its source that it does without."""
    if source.min_reader_version > 3 or source.min_writer_version > 7:
        raise UnsupportedFeature(
            f"the shared table has protocol ({source.min_reader_version}, {source.min_writer_version}),"
            " which is newer than this version of deltamirror knows; a newer deltamirror is needed"
        )
    legacy = source.min_writer_version < 7
    if legacy and not protected and (previous is None or previous.min_writer_version < 7):
        reader, writer = source.min_reader_version, source.min_writer_version
        if previous is not None:
            reader, writer = max(reader, previous.min_reader_version), max(writer, previous.min_writer_version)
        return Protocol(reader, writer), []

    kept: set[str] = set()
    dropped: list[str] = []
    for name in sorted(supported(source)):
        feature = FEATURES.get(name)
        if feature is None and name not in (source.reader_features or []):
            dropped.append(name)
        elif feature is None or feature.policy is Policy.REFUSE:
            because = f": it {feature.why}" if feature else ""
            raise UnsupportedFeature(
                f"the shared table needs the reader feature {name!r}, which deltamirror cannot mirror{because}"
            )
        elif feature.policy is Policy.COPY:
            kept.add(name)
        elif not legacy and feature.activated_by is None:
            dropped.append(name)
    if previous is not None:
        kept |= {name for name in supported(previous) if name in FEATURES and FEATURES[name].policy is Policy.COPY}
    if protected:
        kept.add(PROTECTION)
    readers = sorted(name for name in kept if name in FEATURES and FEATURES[name].reader)
    return Protocol(3 if readers else 1, 7, readers or None, sorted(kept)), dropped


def mirror_configuration(source: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The table properties that a mirror takes over, and the names of those it does without."""
    kept: dict[str, str] = {}
    dropped: list[str] = []
    for name, value in source.items():
        match property_policy(name):
            case Policy.COPY:
                kept[name] = value
            case Policy.OURS:
                pass
            case _:
                dropped.append(name)
    return kept, sorted(dropped)


def property_policy(name: str) -> Policy:
    if name.startswith("deltamirror."):
        return Policy.OURS
    if not name.startswith("delta."):
        return Policy.COPY
    if name in PROPERTIES:
        return PROPERTIES[name].policy
    families = (p for p in PROPERTIES.values() if p.name.endswith(".") and name.startswith(p.name))
    return next((p.policy for p in families), Policy.DROP)
