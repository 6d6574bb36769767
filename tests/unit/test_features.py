"""The feature policy."""

from __future__ import annotations

import pytest

from deltamirror.delta import features
from deltamirror.delta.actions import Protocol
from deltamirror.delta.errors import UnsupportedFeature
from deltamirror.delta.features import Policy


def test_a_legacy_protocol_stays_as_it_is() -> None:
    assert features.mirror_protocol(Protocol(2, 5), None) == (Protocol(2, 5), [])


def test_reader_features_stand_in_both_lists() -> None:
    source = Protocol(3, 7, ["deletionVectors"], ["deletionVectors", "invariants", "appendOnly"])
    protocol, dropped = features.mirror_protocol(source, None)
    assert protocol == Protocol(3, 7, ["deletionVectors"], ["deletionVectors", "invariants"])
    assert dropped == [], "appendOnly does nothing without its property, which is named when it is dropped"


def test_without_reader_features_the_reader_version_is_one() -> None:
    source = Protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint", "rowTracking", "domainMetadata"])
    protocol, dropped = features.mirror_protocol(source, None)
    assert protocol == Protocol(1, 7, None, [])
    assert dropped == ["domainMetadata"]


def test_features_of_a_mirror_only_grow() -> None:
    before = Protocol(3, 7, ["deletionVectors"], ["deletionVectors"])
    protocol, _ = features.mirror_protocol(Protocol(3, 7, ["columnMapping"], ["columnMapping"]), before)
    assert protocol.reader_features == ["columnMapping", "deletionVectors"]


def test_a_legacy_source_under_a_raised_mirror_lists_what_its_numbers_implied() -> None:
    before = Protocol(3, 7, ["deletionVectors"], ["deletionVectors"])
    protocol, dropped = features.mirror_protocol(Protocol(2, 5), before)
    assert protocol.reader_features == ["columnMapping", "deletionVectors"]
    assert protocol.writer_features == [
        *("checkConstraints", "columnMapping", "deletionVectors", "generatedColumns", "invariants")
    ]
    assert dropped == [], "implied is not used"


@pytest.mark.parametrize("name", ["adaptiveMetadata-preview", "somethingNew"])
def test_a_reader_feature_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=name):
        features.mirror_protocol(Protocol(3, 7, [name], [name]), None)


def test_an_unknown_writer_feature_is_dropped_and_named() -> None:
    assert features.mirror_protocol(Protocol(1, 7, None, ["somethingNew"]), None)[1] == ["somethingNew"]


def test_a_newer_protocol_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="newer"):
        features.mirror_protocol(Protocol(4, 8), None)


def test_properties_go_with_their_features() -> None:
    kept, dropped = features.mirror_configuration(
        {
            "delta.columnMapping.mode": "name",
            "delta.constraints.positive": "x > 0",
            "delta.appendOnly": "true",
            "delta.checkpointInterval": "5",
            "delta.rowTracking.materializedRowIdColumnName": "_r",
            "delta.somethingNew": "1",
            "deltamirror.owner": "somebody",
            "team": "sales",
        }
    )
    assert kept == {"delta.columnMapping.mode": "name", "delta.constraints.positive": "x > 0", "team": "sales"}
    assert dropped == [*("delta.appendOnly", "delta.rowTracking.materializedRowIdColumnName", "delta.somethingNew")]


def test_every_decision_has_a_reason() -> None:
    assert all(f.why for f in features.FEATURES.values())
    assert all(p.why for p in features.PROPERTIES.values())
    assert not [f for f in features.FEATURES.values() if f.policy is Policy.REFUSE and not f.reader]
