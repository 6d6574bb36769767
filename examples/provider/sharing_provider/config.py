"""What is shared, with whom and for how long: `provider.yaml` as typed values.

Strict, because a misspelt `historyShared` would be found out only by a recipient.
"""

from __future__ import annotations

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


class Schema(_Section, frozen=True):
    name: str
    tables: list[Table] = []


class Share(_Section, frozen=True):
    name: str
    schemas: list[Schema] = []


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


class Config(_Section, frozen=True):
    bearer_token: Annotated[str, Meta(min_length=1)]
    shares: list[Share] = []
    url_lifetime_seconds: Annotated[int, Meta(gt=0)] = 3600
    reader_features: frozenset[str] = REFERENCE_READER_FEATURES
    s3: S3 = S3()


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
