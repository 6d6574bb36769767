"""The recipient's object store behind one small interface."""

from deltamirror.store.errors import (
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreMisconfigured,
    StoreNotFound,
    StoreUnavailable,
)
from deltamirror.store.location import S3Options, open_store, spark_uri
from deltamirror.store.store import ObjectInfo, Store

__all__ = [
    "ObjectInfo",
    "ObjectNotFound",
    "S3Options",
    "Store",
    "StoreDenied",
    "StoreError",
    "StoreMisconfigured",
    "StoreNotFound",
    "StoreUnavailable",
    "open_store",
    "spark_uri",
]
