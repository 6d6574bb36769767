"""The SharedTable resource as typed models. What users write is decoded here, strictly, and nowhere else."""

from deltamirror.api.errors import ManifestError
from deltamirror.api.manifest import decode, load
from deltamirror.api.shared_table import ObjectMeta, SharedTable, SharedTableSpec

__all__ = ["ManifestError", "ObjectMeta", "SharedTable", "SharedTableSpec", "decode", "load"]
