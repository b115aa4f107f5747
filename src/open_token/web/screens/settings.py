"""Settings: what is installed where, redaction with a try-out, trusted keys, the archive."""

import subprocess
import time
from dataclasses import replace
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from open_token.api import build_context
from open_token.errors import OpenTokenError, UsageError
from open_token.integrity.signatures.trust import read_signers
from open_token.library.health import SOON_DAYS, check_health
from open_token.library.places import path_to_text
from open_token.library.skills import InstallEnvironment
from open_token.options import ExportOptions
from open_token.redaction.explanation import explain
from open_token.redaction.markers import split_around_markers
from open_token.redaction.rule_catalogue import list_rules
from open_token.redaction.text_stream import mask_texts
from open_token.settings import load_signing_settings
from open_token.storage.files import make_folder, read_existing, read_optional, write_atomic
from open_token.web.responses import read_body, respond
from open_token.web.screens.definition import Screen
from open_token.web.workspace import Workspace

_LEVELS = ("secrets", "pii", "strict")
_MAX_TEXT = 100_000
_STATE_FILE = "web.json"


class TryOut(msgspec.Struct):
    """A text in which secrets are to be looked for."""

    text: str
    level: str = "secrets"


async def describe_state(request: Request) -> Response:
    """Return the state of everything on this machine, as `open-token doctor` reports it."""
    workspace: Workspace = request.app.state.workspace
    return respond(await run_in_threadpool(_describe_state, workspace))


def _describe_state(workspace: Workspace) -> dict[str, Any]:
    machine = InstallEnvironment(
        workspace.home, workspace.cwd, workspace.env, workspace.settings.folders.settings
    )
    health = check_health(workspace.env, machine, workspace.command, time.time())
    context = workspace.build_context()
    state: dict[str, Any] = msgspec.to_builtins(health, enc_hook=_encode)
    state["home"] = str(workspace.home)
    state["level"] = context.options.redact
    state["rules"] = len(list_rules(context.screen.rules))
    state["custom_rules"] = [rule.id for rule in context.screen.rules]
    state["settings_folder"] = str(workspace.settings.folders.settings)
    state["signers"] = _list_signers(workspace)
    return state


def _encode(value: Any) -> str:
    return path_to_text(value)


def _list_signers(workspace: Workspace) -> dict[str, Any]:
    """Return who is trusted to sign, or why that is not known."""
    try:
        path = load_signing_settings(workspace.env).signers
        if path is None:
            return {"path": "", "names": [], "problem": ""}
        signers = read_signers(read_existing(path) or b"", str(path))
    except OpenTokenError as problem:
        return {"path": "", "names": [], "problem": problem.what}
    names = sorted({name for signer in signers for name in signer.names})
    return {"path": str(path), "names": names, "problem": ""}


async def try_redaction(request: Request) -> Response:
    """Return what a level masks in a text, and what it almost masked."""
    workspace: Workspace = request.app.state.workspace
    wanted: TryOut = await read_body(request, TryOut)
    if wanted.level not in _LEVELS:
        raise UsageError(f"level takes {', '.join(_LEVELS)}")
    if len(wanted.text) > _MAX_TEXT:
        raise UsageError(
            f"the text is longer than {_MAX_TEXT:,} characters",
            help="use `open-token rules explain FILE`",
        )
    return respond(await run_in_threadpool(_try_redaction, workspace, wanted))


def _try_redaction(workspace: Workspace, wanted: TryOut) -> dict[str, Any]:
    context = build_context(ExportOptions(), workspace.settings, workspace.env)
    context = replace(context, options=context.options.changed(redact=wanted.level))
    explanation = explain(wanted.text.encode("utf-8", "replace"), context, wanted.level)
    masked = mask_texts([wanted.text], context)[0]
    return {
        "masked": masked,
        "parts": split_around_markers(masked),
        "findings": [
            {"type": finding.type, "rule": finding.rule, "where": place.where}
            for finding in explanation.findings
            for place in finding.places
        ],
        "near": [near._asdict() for near in explanation.near],
    }


async def welcome(request: Request) -> Response:
    """Return what the first visit says: how many sessions there are, and how many will go soon."""
    workspace: Workspace = request.app.state.workspace
    return respond(await run_in_threadpool(_describe_welcome, workspace))


def _describe_welcome(workspace: Workspace) -> dict[str, Any]:
    is_known = read_optional(workspace.settings.folders.data / _STATE_FILE) is not None
    entries = workspace.list_entries()
    answer: dict[str, Any] = {
        "is_first": not is_known,
        "sessions": len(entries),
        "agents": len({entry.agent for entry in entries}),
        "days": SOON_DAYS,
        "expiring": 0,
    }
    if not is_known:
        machine = InstallEnvironment(
            workspace.home, workspace.cwd, workspace.env, workspace.settings.folders.settings
        )
        health = check_health(workspace.env, machine, workspace.command, time.time())
        answer["expiring"] = sum(agent.expiring for agent in health.agents)
    return answer


async def dismiss_welcome(request: Request) -> Response:
    """Remember that somebody has been here."""
    workspace: Workspace = request.app.state.workspace
    await run_in_threadpool(_remember_visit, workspace)
    return respond({"ok": True})


def _remember_visit(workspace: Workspace) -> None:
    folder = workspace.settings.folders.data
    if make_folder(folder):
        write_atomic(folder / _STATE_FILE, b'{"schema": "open-token/web-state/1"}\n')


async def archive_sessions(request: Request) -> Response:
    """Archive all sessions in the usual folder, as `open-token archive` does; answers at the end."""
    workspace: Workspace = request.app.state.workspace
    await run_in_threadpool(_remember_visit, workspace)
    status = await run_in_threadpool(_run_archive, workspace)
    await run_in_threadpool(workspace.rebuild)
    request.app.state.changes.notify()
    if status not in (0, 1):
        raise OpenTokenError(
            "the sessions could not be archived",
            help="`open-token archive` in a terminal says why",
            code="web.archive",
        )
    return respond({"archived": sum(entry.is_archived for entry in workspace.list_entries())})


def _run_archive(workspace: Workspace) -> int:
    process = subprocess.run(
        [*workspace.command, "--quiet", "archive"],
        env=dict(workspace.env),
        cwd=workspace.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return process.returncode


SCREEN = Screen(
    "settings",
    "Settings",
    "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
    (
        Route("/web/settings", describe_state),
        Route("/web/settings/try", try_redaction, methods=["POST"]),
        Route("/web/settings/welcome", welcome),
        Route("/web/settings/welcome", dismiss_welcome, methods=["POST"]),
        Route("/web/settings/archive", archive_sessions, methods=["POST"]),
    ),
)
