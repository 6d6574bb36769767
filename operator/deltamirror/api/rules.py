"""What must hold beyond a field's type: said once to the API server and once to the decoder.

The API server reads CEL, a manifest on a laptop is judged in Python: each rule has both forms side by side and one
message, and tests/crd holds both to the same manifests. Patterns, bounds and choices of one field stay in the models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from deltamirror.api.shared_table import Destination, Job, Refresh, Retention, SharedTableSpec, Transfer
from deltamirror.api.units import seconds

Model = TypeVar("Model", bound=msgspec.Struct)
Has = Callable[[str], bool]
"""Whether the manifest says anything at a path below the model: what `has()` is in CEL."""


@dataclass(frozen=True)
class Rule(Generic[Model]):
    model: type[Model]
    field: str
    """What the message is about, as a path below the model."""
    message: str
    cel: str | None
    """None where the schema has words of its own for it."""
    holds: Callable[[Model, Has], bool] | None
    """None where the object before the change is needed, which the API server alone has."""


def _longer_than_zero(model: type[Model], attribute: str) -> Rule[Model]:
    field = next(f for f in msgspec.structs.fields(model) if f.name == attribute)
    name = field.encode_name
    optional = f"!has(self.{name}) || " if field.default is None else ""
    return Rule(
        model,
        name,
        "must be longer than zero, such as 10m",
        cel=f"{optional}self.{name}.matches('[1-9]')",
        holds=lambda self, has: getattr(self, attribute) is None or seconds(getattr(self, attribute)) > 0,
    )


RULES: tuple[Rule[Any], ...] = (
    Rule(
        Destination,
        "uri",
        "cannot be changed; to mirror to another place, make another SharedTable",
        cel="self.uri == oldSelf.uri",
        holds=None,
    ),
    Rule(
        SharedTableSpec,
        "mode",
        "cannot be changed; to mirror in another mode, make another SharedTable with another destination",
        cel="self.mode == oldSelf.mode",
        holds=None,
    ),
    Rule(
        SharedTableSpec,
        "history",
        "is for mode: History; remove it, or set the mode",
        cel="self.mode == 'History' || !has(self.history)",
        holds=lambda self, has: self.mode == "History" or not has("history"),
    ),
    Rule(
        SharedTableSpec,
        "source.partitionFilter",
        "is for mode: Snapshot; remove it, or set the mode",
        cel="self.mode == 'Snapshot' || !has(self.source.partitionFilter)",
        holds=lambda self, has: self.mode == "Snapshot" or not has("source.partitionFilter"),
    ),
    Rule(
        SharedTableSpec,
        "jobs",
        "two jobs have the same name; give each a name of its own",
        cel=None,  # the list is a map by name
        holds=lambda self, has: len({job.name for job in self.jobs}) == len(self.jobs),
    ),
    Rule(
        Refresh,
        "interval",
        "is for policy: Interval; remove it, or set the policy",
        cel="self.policy == 'Interval' || !has(self.interval)",
        holds=lambda self, has: self.policy == "Interval" or not has("interval"),
    ),
    Rule(
        Refresh,
        "schedule",
        'is needed for policy: Schedule; add one, such as "*/15 * * * *"',
        cel="self.policy != 'Schedule' || has(self.schedule)",
        holds=lambda self, has: self.policy != "Schedule" or has("schedule"),
    ),
    Rule(
        Refresh,
        "schedule",
        "is for policy: Schedule; remove it, or set the policy",
        cel="self.policy == 'Schedule' || !has(self.schedule)",
        holds=lambda self, has: self.policy == "Schedule" or not has("schedule"),
    ),
    Rule(
        Refresh,
        "timeZone",
        "is for policy: Schedule; remove it, or set the policy",
        cel="self.policy == 'Schedule' || !has(self.timeZone)",
        holds=lambda self, has: self.policy == "Schedule" or not has("timeZone"),
    ),
    Rule(
        Job,
        "job",
        "a job is started in exactly one way: give it one of job, sparkApplication and apacheSpark",
        cel="[has(self.job), has(self.sparkApplication), has(self.apacheSpark)].exists_one(given, given)",
        holds=lambda self, has: [has("job"), has("sparkApplication"), has("apacheSpark")].count(True) == 1,
    ),
    _longer_than_zero(Refresh, "interval"),
    _longer_than_zero(Refresh, "full_check"),
    _longer_than_zero(Retention, "removed_files"),
    _longer_than_zero(Retention, "log"),
    _longer_than_zero(Transfer, "timeout"),
    _longer_than_zero(Job, "timeout"),
)


def broken(value: object, written: Any, path: str) -> Iterator[str]:
    """A sentence for each rule that a decoded value breaks; `written` is the same value before it was decoded."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from broken(item, written[index], f"{path}[{index}]")
    if not isinstance(value, msgspec.Struct):
        return

    def has(field: str) -> bool:
        found = written
        for name in field.split("."):
            found = (found or {}).get(name)
        return found is not None

    for rule in RULES:
        if isinstance(value, rule.model) and rule.holds is not None and not rule.holds(value, has):
            yield f"{path}.{rule.field}: {rule.message}"
    for field in msgspec.structs.fields(value):
        inside = (written or {}).get(field.encode_name)
        yield from broken(getattr(value, field.name), inside, f"{path}.{field.encode_name}")
