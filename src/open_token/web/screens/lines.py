"""Lines: which prompt of which session wrote each line of a file."""

from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from open_token.errors import InputError
from open_token.library.blame import BlamedLine, Origin, blame_file
from open_token.library.index import SearchIndex
from open_token.web.responses import respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Workspace

_MAX_FOLDERS = 200


class LineGroup(msgspec.Struct):
    """Neighbouring lines with the same origin."""

    first: int
    lines: list[str]
    origin: Origin | None
    key: str
    """The session in addresses; empty without an origin."""
    commit: str


async def list_folders(request: Request) -> Response:
    """Return the folders in which sessions worked, those of the newest first."""
    workspace: Workspace = request.app.state.workspace
    folders = await run_in_threadpool(_find_folders, workspace)
    return respond({"folders": folders, "home": str(workspace.home)})


async def show_lines(request: Request) -> Response:
    """Return the file `path` of the folder `folder`, in groups of lines."""
    workspace: Workspace = request.app.state.workspace
    folder = request.query_params.get("folder", "")
    path = request.query_params.get("path", "")
    groups = await run_in_threadpool(_blame, workspace, folder, path)
    explained = sum(len(group.lines) for group in groups if group.origin)
    total = sum(len(group.lines) for group in groups)
    return respond({"groups": groups, "explained": explained, "total": total})


def _find_folders(workspace: Workspace) -> list[str]:
    names = dict.fromkeys(entry.cwd for entry in workspace.list_entries() if entry.cwd)
    return [name for name in names if Path(name).is_dir()][:_MAX_FOLDERS]


def _blame(workspace: Workspace, folder: str, path: str) -> list[LineGroup]:
    # Only what sessions worked on can be read here, and no link leads out of it.
    known = {entry.cwd for entry in workspace.list_entries()}
    root = Path(folder).resolve()
    file = (root / path).resolve()
    if folder not in known or not file.is_relative_to(root):
        raise InputError(
            "the file is not in a folder of a session",
            help="choose a folder of the list, and a file below it",
            code="web.lines",
        )
    entries = workspace.list_entries()
    keys = {entry.session.id: entry.key for entry in entries}
    sessions = [entry.session for entry in entries]
    with SearchIndex(workspace.index_folder) as index:
        lines = blame_file(file, sessions, index, workspace.build_context())
    return _group_lines(lines, keys)


def _group_lines(lines: list[BlamedLine], keys: dict[str, str]) -> list[LineGroup]:
    groups: list[LineGroup] = []
    for line in lines:
        last = groups[-1] if groups else None
        if last is not None and (last.origin, last.commit) == (line.origin, line.commit):
            last.lines.append(line.text)
            continue
        key = keys.get(line.origin.session_id, "") if line.origin else ""
        groups.append(LineGroup(line.number, [line.text], line.origin, key, line.commit))
    return groups


SCREEN = Screen(
    name="lines",
    title="Lines",
    icon="M4 6h4M11 6h9M4 12h4M11 12h9M4 18h4M11 18h9",
    routes=(
        Route("/web/lines/folders", list_folders),
        Route("/web/lines", show_lines),
    ),
)
