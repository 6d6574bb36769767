"""What obstore cannot do on S3: a conditional multipart upload, and looking after uploads that somebody abandoned."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class OpenUpload:
    path: str
    upload_id: str
    started: datetime


class S3Control:
    """Control calls to one folder of a bucket. Its client is made when it is needed: most syncs never do."""

    def __init__(
        self, make_client: Callable[[], S3Client], bucket: str, prefix: str, encryption: dict[str, Any]
    ) -> None:
        self._make_client = make_client
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._encryption = encryption

    @functools.cached_property
    def _client(self) -> S3Client:
        return self._make_client()

    def put_parts_if_absent(self, path: str, parts: Iterator[bytes]) -> bool:
        """A multipart upload that becomes an object only if there is none: one of many writers wins."""
        key = self._prefix + path
        upload = self._client.create_multipart_upload(Bucket=self._bucket, Key=key, **self._encryption)["UploadId"]
        done: list[Any] = []
        try:
            for number, part in enumerate(parts, 1):
                answer = self._client.upload_part(
                    Bucket=self._bucket, Key=key, UploadId=upload, PartNumber=number, Body=part
                )
                done.append({"ETag": answer["ETag"], "PartNumber": number})
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": done}, IfNoneMatch="*"
            )
        except BaseException as error:
            # A refused completion leaves the upload open, and its parts on the bill.
            self._abort(key, upload)
            if isinstance(error, ClientError) and _code(error) in ("PreconditionFailed", "ConditionalRequestConflict"):
                return False
            raise
        return True

    def open_uploads(self) -> Iterator[OpenUpload]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=self._prefix)
        for page in pages:
            for upload in page.get("Uploads", []):
                path = upload["Key"].removeprefix(self._prefix)
                yield OpenUpload(path, upload["UploadId"], upload["Initiated"])

    def abort(self, upload: OpenUpload) -> None:
        self._abort(self._prefix + upload.path, upload.upload_id)

    def _abort(self, key: str, upload: str) -> None:
        with contextlib.suppress(ClientError, BotoCoreError):  # clean-up finds it again
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
