"""From YAML or an API object to a SharedTable, with errors that name the field."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from deltamirror.api import rules
from deltamirror.api.errors import ManifestError
from deltamirror.api.shared_table import GROUP, KIND, VERSION, SharedTable


def load(path: Path) -> SharedTable:
    """The one SharedTable in a manifest file; other kinds in it are passed over."""
    try:
        documents = [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        raise ManifestError(f"{path}{line}: this is not YAML: {getattr(error, 'problem', error)}") from None
    tables = [d for d in documents if isinstance(d, dict) and d.get("kind") == KIND]
    if len(tables) != 1:
        raise ManifestError(f"{path} holds {len(tables)} {KIND} resources; exactly one is expected")
    if tables[0].get("apiVersion") != f"{GROUP}/{VERSION}":
        raise ManifestError(
            f"{path}: apiVersion is {tables[0].get('apiVersion')!r}; this version knows {GROUP}/{VERSION}"
        )
    try:
        return decode(tables[0])
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from None


def decode(resource: dict[str, Any]) -> SharedTable:
    try:
        shared = msgspec.convert(resource, SharedTable)
    except msgspec.ValidationError as error:
        raise ManifestError(_sentence(str(error), resource)) from None
    if wrong := list(rules.broken(shared.spec, resource["spec"], "spec")):
        raise ManifestError(". ".join(wrong))
    return shared


def _sentence(message: str, resource: dict[str, Any]) -> str:
    """`Object contains unknown field `x` - at `$.spec.y`` becomes something a person would say."""
    text, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("$.").removeprefix("$") or "the resource"
    if found := re.search(r"unknown field `(.*)`", text):
        name = found.group(1)
        close = difflib.get_close_matches(name, _field_names(path), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"{path} has no field {name!r}{hint}"
    if found := re.search(r"missing required field `(.*)`", text):
        return f"{path} needs the field {found.group(1)!r}"
    return f"{path}: {text[0].lower()}{text[1:]}"


def _field_names(path: str) -> list[str]:
    """The fields that the model has at a path such as spec.refresh."""
    kind: Any = msgspec.inspect.type_info(SharedTable)
    for part in re.sub(r"\[[^]]*\]", "", path).split("."):
        if part == "the resource":
            break
        found = next((f for f in _fields(kind) if f.encode_name == part), None)
        if found is None:
            return []
        kind = found.type
    return [f.encode_name for f in _fields(kind)]


def _fields(kind: Any) -> tuple[Any, ...]:
    while True:
        if isinstance(kind, msgspec.inspect.Metadata):
            kind = kind.type
        elif isinstance(kind, msgspec.inspect.UnionType):
            kind = next((t for t in kind.types if isinstance(t, msgspec.inspect.StructType)), None)
        elif isinstance(kind, msgspec.inspect.ListType):
            kind = kind.item_type
        else:
            return kind.fields if isinstance(kind, msgspec.inspect.StructType) else ()
