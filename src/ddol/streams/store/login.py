"""How polars, which has clients of its own, reaches a store just as fsspec does."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

_GOOD_FOR = 300
"""Seconds until keys are asked for again: botocore hands out none that end within ten minutes."""


def login_of(path: str) -> dict[str, Any]:
    """Options of ``polars.scan_parquet`` for an address.

    The client of polars for S3 reads the environment, but neither the settings of fsspec nor, without boto3,
    the files in ``~/.aws``.

    Examples
    --------
    >>> login_of("part-0.parquet")
    {}
    """
    if path.partition("://")[0] not in ("s3", "s3a"):
        return {}
    import fsspec

    files, _ = fsspec.core.url_to_fs(path)
    about = files.s3.meta
    # It would log where it found the region, which no user asked for.
    warnings.filterwarnings("ignore", r"'\(default_\)region' not set", UserWarning)
    options = {} if about.region_name == "aws-global" else {"aws_region": about.region_name}
    if ".amazonaws." not in about.endpoint_url:
        options |= {"aws_endpoint_url": about.endpoint_url, "aws_allow_http": "true"}
    if files.anon:
        return {"storage_options": options | {"aws_skip_signature": "true"}}
    return {"storage_options": options, "credential_provider": partial(_credentials, files)}


def _credentials(files: Any) -> tuple[dict[str, str], int | None]:
    """The keys that fsspec uses now, and until when they are good."""
    from fsspec.asyn import sync

    if files.key:
        known, until = (files.key, files.secret, files.token), None
    else:
        known, until = sync(files.loop, partial(_found, files)), int(time.time()) + _GOOD_FOR
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return {name: value for name, value in zip(names, known, strict=True) if value}, until


async def _found(files: Any) -> tuple[str, ...]:
    """Keys from the environment, from files or from the machine's role."""
    found = await files.session.get_credentials()
    if found is None:
        raise PermissionError("no keys for S3 in the environment or ~/.aws")
    keys = await found.get_frozen_credentials()
    return keys.access_key, keys.secret_key, keys.token
