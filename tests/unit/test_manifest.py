"""Manifests: a typo gets a sentence that names the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamirror import api
from deltamirror.api import units

GOOD = """
apiVersion: deltamirror.io/v1alpha1
kind: SharedTable
metadata: {name: orders, namespace: analytics}
spec:
  source: {profileSecretRef: {name: acme}, share: s, schema: d, table: t}
  destination: {uri: s3://lake/orders}
"""


def load(tmp_path: Path, text: str) -> api.SharedTable:
    path = tmp_path / "table.yaml"
    path.write_text(text)
    return api.load(path)


def test_defaults(tmp_path: Path) -> None:
    shared = load(tmp_path, GOOD)
    assert shared.name == "analytics/orders"
    assert shared.table == "s.d.t"
    assert shared.spec.mode == "Snapshot"
    assert shared.spec.source.profile_secret_ref.key == "profile.json"
    assert shared.spec.retention.removed_files == "168h"


def test_other_documents_in_the_file_are_passed_over(tmp_path: Path) -> None:
    assert load(tmp_path, "kind: Secret\n---" + GOOD).name == "analytics/orders"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD + "  refresh: {intervall: 5m}", "spec.refresh has no field 'intervall'; did you mean 'interval'?"),
        (GOOD + "  refersh: {}", "spec has no field 'refersh'; did you mean 'refresh'?"),
        (GOOD.replace("share: s, ", ""), "spec.source needs the field 'share'"),
        (GOOD + "  refresh: {interval: soon}", "spec.refresh.interval: "),
        (GOOD + "  mode: Mirror", "spec.mode: invalid enum value 'Mirror'"),
        (GOOD.replace("s3://lake", "ftp://lake"), "spec.destination.uri: "),
        (GOOD.replace("v1alpha1", "v9"), "apiVersion is 'deltamirror.io/v9'"),
        (GOOD + "  jobs: [{name: a, jb: {}}]", "spec.jobs[0] has no field 'jb'; did you mean 'job'?"),
        ("kind: Secret", "holds 0 SharedTable resources"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_mistake_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(api.ManifestError) as caught:
        load(tmp_path, text)
    assert sentence in str(caught.value)


def test_a_missing_file_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(api.ManifestError, match="cannot be read: No such file"):
        api.load(tmp_path / "nothing.yaml")


def test_units() -> None:
    assert units.seconds("1h30m") == 5400
    assert units.seconds("250ms") == 0.25
    assert units.size("1.5Gi") == 3 * 2**29
    assert units.size("5k") == 5000
    assert units.human(1536) == "1.5 KiB"
