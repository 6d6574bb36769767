"""The names of a mirror's files, derived from the identity of the source's.

Because a name follows from what the source lists, the next sync needs nothing but the mirror's log to know what it has.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from urllib.parse import unquote, urlsplit

from deltamirror.sharing import SharedDeletionVector, SharedFile

_NAMESPACE = uuid.UUID("6f6b3c2e-9a1d-5d43-8c59-3f1b0f7a52de")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def data_stem(id_scheme: str, file_id: str) -> str:
    return hashlib.sha256(f"{id_scheme}\0{file_id}".encode()).hexdigest()[:32]


def data_path(id_scheme: str, file: SharedFile) -> str:
    """The stem says which file it is; the size is in the name so that a file of another size is never taken for it."""
    return f"{data_stem(id_scheme, file.id)}-{file.size}.parquet"


def vector_file(vector: SharedDeletionVector) -> uuid.UUID:
    """Our name for a deletion vector file.

    Its identity is what the server calls it; else the uuid in its name, which survives a change of URL style; else its path.
    The query string of a signed URL changes on every call and never counts.
    """
    if vector.file_id:
        return uuid.uuid5(_NAMESPACE, f"id:{vector.file_id}")
    path = unquote(urlsplit(vector.path_or_inline).path)
    found = _UUID.search(path.rpartition("/")[2])
    return uuid.uuid5(_NAMESPACE, f"uuid:{found.group(0)}" if found else f"path:{path}")
