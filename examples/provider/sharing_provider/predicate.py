"""jsonPredicateHints: leaving out files whose partition values do not match.

The parts of the predicate that are joined by "and" and speak of partition columns alone are applied; all else
is left to the client, for which hints are only hints. Comparisons with null are unknown, and unknown does not
match, as in SQL. What cannot be understood filters nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from deltamirror.delta.actions import Metadata, PartitionValues

Filter = Callable[[PartitionValues], bool]


class Op(msgspec.Struct, frozen=True, rename="camel"):
    op: str
    children: list[Op] = []
    name: str = ""
    value: str = ""
    value_type: str = ""


class _Field(msgspec.Struct, frozen=True):
    name: str
    type: Any
    metadata: dict[str, Any] = {}


class _Schema(msgspec.Struct, frozen=True):
    fields: list[_Field]


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "lessThan": operator.lt,
    "lessThanOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterThanOrEqual": operator.ge,
}
_TYPES: dict[str, tuple[str, Callable[[str], Any]]] = {
    # Name in a predicate: name in a schema, and how a value is read.
    "bool": ("boolean", lambda text: text.lower() == "true"),
    "int": ("integer", int),
    "long": ("long", int),
    "float": ("float", float),
    "double": ("double", float),
    "string": ("string", str),
    "date": ("date", date.fromisoformat),
    "timestamp": ("timestamp", _moment),
}


def partition_filter(hint: str | None, metadata: Metadata) -> Filter:
    try:
        predicate = msgspec.json.decode(hint or "", type=Op)
    except msgspec.MsgspecError:
        return lambda values: True
    schema = msgspec.json.decode(metadata.schema_string, type=_Schema)
    columns = {field.name: field for field in schema.fields if field.name in metadata.partition_columns}
    parts = [part for part in _conjuncts(predicate) if _column_names(part) <= columns.keys()]
    return lambda values: all(_matches(part, values, columns) for part in parts)


def _conjuncts(op: Op) -> Iterator[Op]:
    if op.op == "and":
        for child in op.children:
            yield from _conjuncts(child)
    else:
        yield op


def _column_names(op: Op) -> set[str]:
    return {op.name} if op.op == "column" else set().union(*map(_column_names, op.children))


def _matches(predicate: Op, values: PartitionValues, columns: dict[str, _Field]) -> bool:
    def evaluate(op: Op) -> Any:
        if op.op in ("column", "literal"):
            type_name, read = _TYPES[op.value_type]
            if op.op == "literal":
                return read(op.value)
            column = columns[op.name]
            if column.type != type_name:
                raise ValueError(f"{op.name} is no {type_name}")
            text = values.get(column.metadata.get("delta.columnMapping.physicalName", op.name))
            return read(text) if text else None  # Delta protocol: an empty string is a null
        found = [evaluate(child) for child in op.children]
        match op.op, found:
            case "isNull", [value]:
                return value is None
            case "not", [value]:
                return None if value is None else not value
            case "and", _:
                return False if False in found else None if None in found else True
            case "or", _:
                return True if True in found else None if None in found else False
            case name, [left, right]:
                compare = _COMPARE[name]
                return None if left is None or right is None else compare(left, right)
        raise ValueError(f"{op.op} with {len(found)} children")

    try:
        return evaluate(predicate) is True
    except (KeyError, TypeError, ValueError):
        return True
