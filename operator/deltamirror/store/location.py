"""From a destination URI and its credentials to an open Store."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
from botocore.config import Config
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import LocalStore, S3Store

from deltamirror.store.errors import StoreDenied, StoreMisconfigured
from deltamirror.store.s3 import S3Control
from deltamirror.store.store import Store

_RETRIES: Any = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}


@dataclass(frozen=True, slots=True)
class S3Options:
    endpoint: str | None = None
    region: str | None = None
    kms_key_id: str | None = None


def open_store(uri: str, *, environment: Mapping[str, str], s3: S3Options | None = None) -> Store:
    """Opens the folder at `uri`; `environment` holds credentials under the names the cloud's own tools use."""
    root = uri.rstrip("/")
    match urlsplit(uri).scheme:
        case "file":
            return _local(root)
        case "s3":
            return _s3(root, environment, s3 or S3Options())
        case _:
            raise StoreMisconfigured(
                f"destination.uri {uri!r} is not understood: use s3://bucket/folder, or file:///folder outside a cluster"
            )


def spark_uri(uri: str) -> str:
    """The form in which Spark reads a destination: Hadoop's s3a for s3, plain otherwise."""
    return "s3a" + uri.removeprefix("s3") if uri.startswith("s3://") else uri


def _local(uri: str) -> Store:
    parts = urlsplit(uri)
    path = Path(unquote(parts.path))
    if parts.netloc or not path.is_absolute() or path == Path("/"):
        raise StoreMisconfigured(f"destination.uri {uri!r} needs an absolute folder: file:///folder")
    try:
        return Store(uri, LocalStore(path, mkdir=True), folder=path)
    except OSError as error:
        raise StoreMisconfigured(f"the folder {path} cannot be made: {error.strerror}") from None


def _s3(uri: str, environment: Mapping[str, str], options: S3Options) -> Store:
    parts = urlsplit(uri)
    if not parts.netloc:
        raise StoreMisconfigured(f"destination.uri {uri!r} names no bucket: use s3://bucket/folder")
    endpoint = options.endpoint or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = options.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    session = boto3.Session(
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
        region_name=region,
    )
    try:
        credentials = Boto3CredentialProvider(session)
    except ValueError:
        raise StoreDenied(
            f"no AWS credentials were found for {uri}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
            " name a Secret in destination.credentialsSecretRef, or give the pod an identity"
        ) from None
    config: Any = {"region": session.region_name or "us-east-1"}
    if endpoint:
        config["endpoint"] = endpoint
        config["virtual_hosted_style_request"] = False
    encryption: dict[str, Any] = {}
    if options.kms_key_id:
        config |= {"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": options.kms_key_id}
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": options.kms_key_id}
    prefix = parts.path.strip("/")
    backend = S3Store(
        parts.netloc,
        prefix=prefix or None,
        config=config,
        client_options={"allow_http": bool(endpoint and endpoint.startswith("http://")), "connect_timeout": "5s"},
        retry_config=_RETRIES,
        credential_provider=credentials,
    )
    addressing: Any = {"addressing_style": "path"} if endpoint else {}
    make_client = functools.partial(
        session.client,
        "s3",
        endpoint_url=endpoint,
        region_name=config["region"],
        config=Config(signature_version="s3v4", s3=addressing, retries={"mode": "standard", "max_attempts": 4}),
    )
    return Store(uri, backend, s3=S3Control(make_client, parts.netloc, prefix, encryption))
