"""What an answer that is an error means: from its status, its errorCode and, where servers leave no other way, its words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from deltamirror.sharing.errors import (
    CredentialsRejected,
    HistoryNotShared,
    NetworkMisconfigured,
    NotASharingServer,
    NotATable,
    NotShared,
    ProviderFailed,
    RateLimited,
    RequestRefused,
    SharingError,
)
from deltamirror.sharing.words import plain, quoted


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of a server, in whatever way it came: as the status of an answer, or in the last line of one."""

    status: int | None
    body: bytes = b""
    message: str = ""
    content_type: str = ""
    retry_after: float | None = None

    def error(self, what: str, host: str, secrets: Iterable[str] = ()) -> SharingError:
        """`what` is what was asked for; `secrets` are what the server may be quoting."""
        code, message = error_body(self.body)
        message = message or self.message
        said = quoted(message, secrets)
        code = plain(code, 100, secrets) if code else None
        kind, sentence = _meaning(self.status, code, message, self.content_type)
        text = sentence.format(what=what, host=host, status=self.status, said=said)
        return kind(text, error_code=code, status=self.status, retry_after=self.retry_after)


def _meaning(status: int | None, code: str | None, message: str, content_type: str) -> tuple[type[SharingError], str]:
    match status:
        case 401 | 403:
            return (
                CredentialsRejected,
                "the provider rejects the token for {what} ({status}){said}: ask it for a new profile",
            )
        case 404 if "html" in content_type:
            return NotASharingServer, NOT_A_SERVER
        case 404:
            return NotShared, "{what} is not shared with this recipient{said}: `deltamirror list` shows what is"
        case 407:
            return NetworkMisconfigured, "the proxy on the way to the provider at {host} wants other credentials (407)"
        case 429:
            return RateLimited, "the provider at {host} limits our requests (429)"
        case None:
            return ProviderFailed, "the provider gave up on {what}{said}"
        case 408 | 425:
            return ProviderFailed, "the provider failed with {status} on {what}{said}"
        case _ if status >= 500:
            return ProviderFailed, "the provider failed with {status} on {what}{said}"
    if _about_views(message):
        return NotATable, "{what} is a view or the like, which has no files to mirror ({status}){said}"
    unshared = code == "INVALID_PARAMETER_VALUE" and _about_history(message)
    return HistoryNotShared if unshared else RequestRefused, "the provider refuses {what} ({status}){said}"


NOT_A_SERVER = "the provider at {host} answers with a web page: is the endpoint of the profile a Delta Sharing server?"


def error_body(body: bytes) -> tuple[str | None, str]:
    """errorCode and message of an error answer; hosted servers put a finer code into `details`."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, ""
    if not isinstance(content, dict):
        return None, ""
    code, message = content.get("errorCode") or content.get("error_code"), content.get("message")
    details = content.get("details")
    for detail in details if isinstance(details, list) else []:
        metadata = detail.get("metadata") if isinstance(detail, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("dsError"), str):
            code = metadata["dsError"]
    return (code if isinstance(code, str) else None), (message if isinstance(message, str) else "")


def _about_history(message: str) -> bool:
    """Servers have no code of its own for it; the reference server has these sentences."""
    lowered = message.lower()
    return "history sharing is not enabled" in lowered or "cdf is not enabled on table" in lowered


def _about_views(message: str) -> bool:
    """Databricks: "table with type VIEW is currently unsupported in Delta Sharing protocol"."""
    return re.search(r"\btable with type \w*VIEW\b", message, re.IGNORECASE) is not None
