"""What a sharing server answers when it does not answer with data.

    Refusal
    ├── NotFound              404 RESOURCE_DOES_NOT_EXIST   no such share, schema or table
    ├── TableUnreadable       400 RESOURCE_DOES_NOT_EXIST   shared, but its storage is gone or closed
    ├── InvalidParameter      400 INVALID_PARAMETER_VALUE   the request asks for something it may not
    ├── MalformedRequest      400 MALFORMED_REQUEST         unreadable, or the log cannot give what it names
    ├── Unsupported           400 UNSUPPORTED_OPERATION     the table needs what the client or this server has not
    └── UndeclaredFeatures    400 INVALID_PARAMETER_VALUE   the same from a hosted server, which words it otherwise

All of them are sent as {"errorCode", "message"} unless they say otherwise; every other error becomes a 500 that
says nothing.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Refusal(Exception):
    status: ClassVar[int] = 400
    code: ClassVar[str]

    def body(self) -> dict[str, Any]:
        return {"errorCode": self.code, "message": str(self)}


class NotFound(Refusal):
    status = 404
    code = "RESOURCE_DOES_NOT_EXIST"


class TableUnreadable(Refusal):
    code = "RESOURCE_DOES_NOT_EXIST"


class InvalidParameter(Refusal):
    code = "INVALID_PARAMETER_VALUE"


class MalformedRequest(Refusal):
    code = "MALFORMED_REQUEST"


class Unsupported(Refusal):
    code = "UNSUPPORTED_OPERATION"


class UndeclaredFeatures(Refusal):
    code = "INVALID_PARAMETER_VALUE"
    reason = "DS_UNSUPPORTED_DELTA_TABLE_FEATURES"

    def body(self) -> dict[str, Any]:
        details = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.code,
            "metadata": {"dsError": self.reason},
        }
        return {"error_code": self.code, "message": f"{self.reason}: {self}", "details": [details]}
