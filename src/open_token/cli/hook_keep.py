"""`open-token hook keep`, the background process of `hook run`: archive the queued sessions."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from open_token.api import build_context
from open_token.cli.hook_run import HOOKS_FOLDER
from open_token.cli.shared.console import Console
from open_token.library.archive import Archive
from open_token.library.discovery import Discovery
from open_token.library.hooks.archiving import ArchivingContext, process_queue
from open_token.library.hooks.queue import CallQueue
from open_token.options import OPTION_NAMES, ExportOptions
from open_token.settings import load_settings
from open_token.storage.files import Folders


def run(_: Sequence[str]) -> int:
    """Archive every session with a queued call; errors go to the log."""
    with contextlib.suppress(OSError):
        os.nice(10)
    env = drop_option_variables(os.environ)
    console = Console(env)
    folder = Folders.of(env).data / HOOKS_FOLDER
    world = ArchivingContext(
        discovery=lambda: Discovery.of(env, console.home),
        archive=lambda named: open_archive(named, env, folder),
        now=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        clock=time.monotonic,
        work=time.process_time,
        sleep=time.sleep,
    )
    process_queue(CallQueue(folder), world)
    return 0


def drop_option_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without export options.

    An agent may have taken them from an untrusted project."""
    variables = {f"OPEN_TOKEN_{name.upper()}" for name in OPTION_NAMES}
    return {name: value for name, value in env.items() if name not in variables}


def open_archive(named: str, env: Mapping[str, str], cwd: Path) -> Archive:
    """Open the named or the default archive, with the options of the user's settings."""
    settings = load_settings(env, cwd)
    options = ExportOptions.of(settings.defaults)
    if named:
        folder = Path(named)
    else:
        folder = settings.folders.data / "archive"
    return Archive(folder, lambda: build_context(options, settings, env), time.time)
