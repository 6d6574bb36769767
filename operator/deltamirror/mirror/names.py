"""The names of a mirror's files, derived from the identity of the source's.

Because a name follows from what the source lists, the next sync needs nothing but the mirror's log to know what it has.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from urllib.parse import unquote, urlsplit

from deltamirror.sharing import SharedDeletionVector

_NAMESPACE = uuid.UUID("6f6b3c2e-9a1d-5d43-8c59-3f1b0f7a52de")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DATA = re.compile(r"[0-9a-f]{32}-\d+\.parquet")
_VECTOR = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin")


class Names:
    """Names within one life of a source.

    `seed` is the identity of the table when its mirror began. A source that is made anew may use old file names for new contents,
    so a mirror that starts over starts with new names.
    """

    def __init__(self, seed: str, id_scheme: str) -> None:
        self._prefix = f"{seed}\0{id_scheme}\0"

    def data(self, file_id: str, size: int) -> str:
        """The stem says which file it is; the size is in the name so that a file of another size is never taken for it."""
        return f"{self.stem(file_id)}-{size}.parquet"

    def stem(self, file_id: str) -> str:
        return hashlib.sha256((self._prefix + file_id).encode()).hexdigest()[:32]

    def vector(self, vector: SharedDeletionVector) -> uuid.UUID:
        """Our name for a deletion vector file.

        Its identity is what the server calls it; else the uuid in its name, which survives a change of URL style; else its path.
        The query string of a signed URL changes on every call and never counts.
        """
        if vector.file_id:
            identity = f"id:{vector.file_id}"
        else:
            path = unquote(urlsplit(vector.path_or_inline).path)
            found = _UUID.search(path.rpartition("/")[2])
            identity = f"uuid:{found.group(0)}" if found else f"path:{path}"
        return uuid.uuid5(_NAMESPACE, self._prefix + identity)


def is_ours(path: str) -> bool:
    """Whether an object has a name that only a mirror gives. Clean-up looks at no others."""
    return bool(_DATA.fullmatch(path) or _VECTOR.fullmatch(path))
