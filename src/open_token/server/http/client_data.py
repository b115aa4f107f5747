"""Routes of data that clients keep on the server, and of files that they share by a folder."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from msgspec import Meta, Struct

from open_token.server.core import client_data
from open_token.server.core.workspace import Workspace, publish_files_changed
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller, get_workspace
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response

router = APIRouter(tags=["client data"])

_MAX_VALUE = 100_000
_BUCKET = {"bucket": "staging", "env": {"STAGE": "test"}}
_EXTRA = {
    "session_id": "sess_7Fq2mW9xKc3RtY1b",
    "extra": {"task_id": "task-17"},
    "created_at": "2026-01-31T08:00:00.000Z",
    "updated_at": "2026-01-31T08:00:00.000Z",
}


class Preference(Struct, forbid_unknown_fields=True):
    """The value of a preference; null if it was never set."""

    value: Annotated[str, Meta(max_length=_MAX_VALUE)] | None


class Bucket(Struct):
    """A named environment; values of secret-looking names are masked."""

    bucket: str
    env: dict[str, str]


class BucketEnvironment(Struct, forbid_unknown_fields=True):
    """The variables of a named environment."""

    env: dict[str, str]


class DeletedBucket(Struct):
    """The environment was deleted."""

    bucket: str
    status: str


class ExtraInfo(Struct):
    """What a client noted about a session."""

    session_id: str | None
    extra: dict[str, Any]
    created_at: str | None
    updated_at: str | None


class NewExtraInfo(Struct, forbid_unknown_fields=True):
    """Facts about a session, by name."""

    extra: dict[str, Any]


class FileToShare(Struct, kw_only=True, forbid_unknown_fields=True):
    """A file of the workspace, and its name and folder below `.share`."""

    source_path: Annotated[str, Meta(min_length=1, max_length=4000)]
    link_name: Annotated[str, Meta(max_length=240)] = ""
    share_folder: Annotated[str, Meta(max_length=1000)] = ""


class SharedFile(Struct):
    """Where the copy is, and what it was made of."""

    path: str
    target: str


@router.get(
    "/api/user/preferences/{key}", responses=describe_response(Preference, {"value": "dark"})
)
async def read_preference(services: ServicesDep, caller: ReadCaller, key: str) -> Response:
    """Get a preference of the user."""
    return json_response({"value": await client_data.get_preference(services, caller.user.id, key)})


@router.put(
    "/api/user/preferences/{key}",
    responses=describe_response(Preference, {"value": "dark"}),
    openapi_extra=describe_body(Preference, {"value": "dark"}),
)
async def set_preference(
    services: ServicesDep,
    caller: WriteCaller,
    key: str,
    given: Annotated[Any, json_body(Preference)],
) -> Response:
    """Set a preference, for clients only: the server does not use it; null removes it."""
    await client_data.set_preference(services, caller.user.id, key, given.value)
    return json_response(given)


@router.get("/api/user/env-buckets", responses=describe_response([Bucket], [_BUCKET]))
async def list_buckets(services: ServicesDep, caller: ReadCaller) -> Response:
    """List the named environments of the user."""
    return json_response(await client_data.list_buckets(services, caller.user.id))


@router.get("/api/user/env-buckets/{bucket}", responses=describe_response(Bucket, _BUCKET))
async def read_bucket(services: ServicesDep, caller: ReadCaller, bucket: str) -> Response:
    """Get a named environment."""
    return json_response(await client_data.get_bucket(services, caller.user.id, bucket))


@router.put(
    "/api/user/env-buckets/{bucket}",
    responses=describe_response(Bucket, _BUCKET),
    openapi_extra=describe_body(BucketEnvironment, {"env": {"STAGE": "test"}}),
)
async def set_bucket(
    services: ServicesDep,
    caller: WriteCaller,
    bucket: str,
    given: Annotated[Any, json_body(BucketEnvironment)],
) -> Response:
    """Set a named environment; a session is created with it by `env_bucket`."""
    return json_response(await client_data.set_bucket(services, caller.user.id, bucket, given.env))


@router.delete(
    "/api/user/env-buckets/{bucket}",
    responses=describe_response(DeletedBucket, {"bucket": "staging", "status": "deleted"}),
)
async def delete_bucket(services: ServicesDep, caller: WriteCaller, bucket: str) -> Response:
    """Delete a named environment; sessions keep the variables that they were created with."""
    await client_data.delete_bucket(services, caller.user.id, bucket)
    return json_response({"bucket": bucket, "status": "deleted"})


@router.get(
    "/api/sessions/extra_info/by_task/{client_task_id}",
    responses=describe_response(ExtraInfo, _EXTRA),
)
async def find_extra_info(
    services: ServicesDep, caller: ReadCaller, client_task_id: str
) -> Response:
    """Find the session in whose extra information `task_id` has this value."""
    return json_response(
        await client_data.find_extra_info(services, caller.user.id, client_task_id)
    )


@router.get("/api/sessions/{session_id}/extra_info", responses=describe_response(ExtraInfo, _EXTRA))
async def read_extra_info(services: ServicesDep, caller: ReadCaller, session_id: str) -> Response:
    """Get what clients noted about a session."""
    return json_response(await client_data.get_extra_info(services, caller.user.id, session_id))


@router.post(
    "/api/sessions/{session_id}/upset_extra_info",
    responses=describe_response(ExtraInfo, _EXTRA),
    openapi_extra=describe_body(NewExtraInfo, {"extra": {"task_id": "task-17"}}),
)
async def add_extra_info(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(NewExtraInfo)],
) -> Response:
    """Note facts about a session, for clients only; a name that is known gets the new value."""
    return json_response(
        await client_data.add_extra_info(services, caller.user.id, session_id, given.extra)
    )


@router.post(
    "/api/sessions/{session_id}/share-file",
    responses=describe_response(SharedFile, {"path": ".share/output.csv", "target": "output.csv"}),
    openapi_extra=describe_body(FileToShare, {"source_path": "output.csv"}),
)
async def share_file(
    services: ServicesDep,
    caller: WriteCaller,
    session_id: str,
    given: Annotated[Any, json_body(FileToShare)],
) -> Response:
    """Copy a file of the workspace to its folder `.share`."""
    workspace = await get_workspace(services, caller, session_id)
    path = client_data.to_share_path(given.source_path, given.link_name, given.share_folder)
    await asyncio.to_thread(_copy_file, workspace, given.source_path, path)
    await publish_files_changed(services, caller.user.id, session_id, "copied", path)
    return json_response({"path": path, "target": given.source_path})


def _copy_file(workspace: Workspace, source: str, target: str) -> None:
    with workspace.opened(source) as (file, _):
        workspace.write(target, file)
