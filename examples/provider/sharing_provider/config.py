"""What is shared, with whom and for how long: `provider.yaml` as typed values.

Strict, because a misspelt `historyShared` would be found out only by a recipient.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta

from deltamirror.store import S3Options

REFERENCE_READER_FEATURES = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""The table features that the reference server can read; it refuses tables that need any other."""


class Flavour(enum.Enum):
    """Whose behaviour a table is shared with, where servers differ."""

    REFERENCE = "reference"
    """The open-source server: ranges, changes and pages only of tables that every client can read."""
    HOSTED = "hosted"
    """A commercial one, as far as the official clients show it: everything works on every table."""
    LEGACY = "legacy"
    """The open-source server before there was a format but `parquet`: it knows no capabilities."""


class ConfigError(Exception):
    """A sentence for the person who wrote the configuration."""


class _Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class Table(_Section, frozen=True):
    name: str
    location: Annotated[str, Meta(pattern="^(file:///|s3://)")]
    id: str = ""
    history_shared: bool = False
    start_version: Annotated[int, Meta(ge=0)] = 0
    """The oldest version that may be queried; only of interest with `historyShared`."""
    flavour: Flavour | None = None
    """That of the share, if nothing is said."""
    directory_access: bool = False
    """Whether recipients get credentials for the table's folder; needs a bucket and the hosted flavour."""

    def __post_init__(self) -> None:
        if self.directory_access and not self.location.startswith("s3://"):
            raise ValueError(f"table {self.name} has directoryAccess, which needs a location in s3://")


class Schema(_Section, frozen=True):
    name: str
    tables: list[Table] = []


class Share(_Section, frozen=True):
    name: str
    schemas: list[Schema] = []
    flavour: Flavour = Flavour.REFERENCE


class S3(_Section, frozen=True):
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None

    @property
    def options(self) -> S3Options:
        env = os.environ
        return S3Options(
            endpoint=self.endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL"),
            region=self.region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1",
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """Credentials under the names that AWS tools use: from here, else from the process."""
        if self.access_key is None or self.secret_key is None:
            return os.environ
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}


class TemporaryCredentials(_Section, frozen=True):
    """What recipients with directory access are given. A server on AWS would have them made, for one folder each."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    """Empty for a store that is not AWS and takes none."""


class Config(_Section, frozen=True):
    bearer_token: Annotated[str, Meta(min_length=1)]
    shares: list[Share] = []
    url_lifetime_seconds: Annotated[int, Meta(gt=0)] = 3600
    reader_features: frozenset[str] = REFERENCE_READER_FEATURES
    s3: S3 = S3()
    temporary_credentials: TemporaryCredentials | None = None

    def __post_init__(self) -> None:
        for share in self.shares:
            for table in (table for schema in share.schemas for table in schema.tables):
                if not table.directory_access:
                    continue
                if (table.flavour or share.flavour) is not Flavour.HOSTED:
                    raise ValueError(f"table {table.name} has directoryAccess, which needs flavour: hosted")
                if self.temporary_credentials is None:
                    raise ValueError(f"table {table.name} has directoryAccess, and there are no temporaryCredentials")


def parse(text: str, source: str = "the configuration") -> Config:
    try:
        return msgspec.convert(yaml.safe_load(text), Config)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source} cannot be used: {error}") from None


def load(path: Path) -> Config:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    return parse(text, str(path))
