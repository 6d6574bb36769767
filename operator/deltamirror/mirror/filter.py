"""The partition filter: a Delta Sharing JSON predicate on partition columns, evaluated here and not left to the server.

Servers take predicates as hints. A mirror that shall hold some partitions and no others has to decide for itself, typed, by the columns' physical
names in the schema of the version at hand (Delta Sharing protocol: JSON predicates for Filtering).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from deltamirror.delta.actions import PartitionValues
from deltamirror.mirror.errors import FilterInvalid

Value = Any
Evaluate = Callable[[PartitionValues], Value]
_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "equal": lambda a, b: a == b,
    "lessThan": lambda a, b: a < b,
    "lessThanOrEqual": lambda a, b: a <= b,
    "greaterThan": lambda a, b: a > b,
    "greaterThanOrEqual": lambda a, b: a >= b,
}


def compile_filter(
    predicate: dict[str, Any], schema_string: str, partition_columns: list[str]
) -> Callable[[PartitionValues], bool]:
    """A function that tells whether a file's partition belongs into the mirror. Unknown (a comparison with null) is no."""
    evaluate = _compile(predicate, _physical_names(schema_string, partition_columns))
    return lambda values: evaluate(values) is True


def _physical_names(schema_string: str, partition_columns: list[str]) -> dict[str, tuple[str, str]]:
    """Partition columns by lower-case logical name: physical name and type."""
    fields = {field["name"]: field for field in json.loads(schema_string)["fields"]}
    known = {}
    for name in partition_columns:
        field = fields.get(name, {})
        physical = (field.get("metadata") or {}).get("delta.columnMapping.physicalName", name)
        known[name.lower()] = (physical, str(field.get("type", "string")))
    return known


def _compile(node: Any, columns: dict[str, tuple[str, str]]) -> Evaluate:
    if not isinstance(node, dict) or not isinstance(node.get("op"), str):
        raise FilterInvalid("the partition filter has a part without an 'op'")
    op, children = node["op"], node.get("children") or []
    match op:
        case "and" | "or":
            _need(op, children, at_least=2)
            parts = [_compile(child, columns) for child in children]
            return (lambda v: _all(p(v) for p in parts)) if op == "and" else (lambda v: _any(p(v) for p in parts))
        case "not":
            _need(op, children, exactly=1)
            inner = _compile(children[0], columns)
            return lambda v: None if (found := inner(v)) is None else not found
        case "isNull":
            _need(op, children, exactly=1)
            column = _leaf(children[0], columns)
            return lambda v: column(v) is None
        case "equal" | "lessThan" | "lessThanOrEqual" | "greaterThan" | "greaterThanOrEqual":
            _need(op, children, exactly=2)
            left, right = (_leaf(child, columns) for child in children)
            compare = _COMPARE[op]
            return lambda v: None if (a := left(v)) is None or (b := right(v)) is None else compare(a, b)
        case _:
            raise FilterInvalid(f"the partition filter has an operation {op!r} that is not known")


def _need(op: str, children: list[Any], exactly: int | None = None, at_least: int = 0) -> None:
    if (exactly is not None and len(children) != exactly) or len(children) < at_least:
        raise FilterInvalid(f"the operation {op!r} of the partition filter has {len(children)} children")


def _leaf(node: Any, columns: dict[str, tuple[str, str]]) -> Evaluate:
    if not isinstance(node, dict):
        raise FilterInvalid("the partition filter compares something that is neither a column nor a literal")
    kind = node.get("valueType")
    if kind not in ("bool", "int", "long", "string", "date", "float", "double", "timestamp"):
        raise FilterInvalid(f"the partition filter has a valueType {kind!r} that is not known")
    if node.get("op") == "literal":
        literal = parse_value(str(node.get("value")), kind)
        return lambda _: literal
    if node.get("op") != "column":
        raise FilterInvalid("the partition filter compares something that is neither a column nor a literal")
    name = str(node.get("name"))
    if name.lower() not in columns:
        raise FilterInvalid(
            f"the partition filter names the column {name!r}, which is no partition column of the shared table:"
            f" it has {', '.join(sorted(columns)) or 'none'}"
        )
    physical, _ = columns[name.lower()]

    def read(values: PartitionValues) -> Value:
        text = values.get(physical)
        return None if text is None or text == "" else parse_value(text, kind)

    return read


def parse_value(text: str, kind: str) -> Value:
    """A partition value or literal as a value that compares as its type does."""
    try:
        match kind:
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int" | "long":
                return int(text)
            case "float" | "double":
                return Decimal(text)
            case "date":
                return date.fromisoformat(text[:10])
            case "timestamp":
                time = datetime.fromisoformat(text.replace("Z", "+00:00"))
                return time if time.tzinfo else time.replace(tzinfo=UTC)
            case _:
                return text
    except (ValueError, KeyError, InvalidOperation):
        raise FilterInvalid(f"the partition filter compares {text!r} as {kind}, which it is not") from None


def _all(found: Any) -> bool | None:
    results = list(found)
    return False if False in results else None if None in results else True


def _any(found: Any) -> bool | None:
    results = list(found)
    return True if True in results else None if None in results else False
