"""The words of a server within our own sentences: short, on one line, and without what nobody may see.

Servers quote what they were sent, and sometimes what they were about to send: tokens and signed URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s\"'<>?#]*)[?#][^\s\"'<>]*")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+\S+")
_SIGNATURE = re.compile(
    r"(?i)\b(sig|signature|x-[a-z]+-[a-z-]+|token|[a-z]*token|password|secret)\b(\s*[=:]\s*)[^\s&\"']+"
)
_UNPRINTABLE = re.compile(r"[^ -~\u00a0-\ud7ff\ue000-\uffef]+")


def plain(text: str, longest: int = 300, secrets: Iterable[str] = ()) -> str:
    """A text from elsewhere, fit for a message."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    text = _UNPRINTABLE.sub(" ", text)
    text = _SIGNATURE.sub(r"\1\2…", _BEARER.sub(r"\1 …", _URL.sub(r"\1?…", text)))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def quoted(text: str, secrets: Iterable[str] = ()) -> str:
    """`: "what the server said"`, or nothing if it said nothing."""
    said = plain(text, secrets=secrets).strip()
    return f': "{said}"' if said else ""
