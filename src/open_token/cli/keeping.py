"""`open-token hook keep`, which `hook run` starts: carries out the calls that wait, with nobody
looking on."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from open_token.cli.console import Console
from open_token.cli.hooked import FOLDER
from open_token.library import context_for
from open_token.locallib.archive import Archive
from open_token.locallib.discovery import Discovery
from open_token.locallib.hooks.archiving import Surroundings, archive_all
from open_token.locallib.hooks.queue import CallQueue
from open_token.options import NAMES, ExportOptions
from open_token.settings import load_settings
from open_token.storage.files import Folders


def run(_: Sequence[str]) -> int:
    """Keep every conversation of which a call waits; what goes wrong is in the log."""
    with contextlib.suppress(OSError):
        os.nice(10)
    env = own_options(os.environ)
    console = Console(env)
    folder = Folders.of(env).data / FOLDER
    world = Surroundings(
        discovery=lambda: Discovery.of(env, console.home),
        archive=lambda named: archive_in(named, env, folder),
        now=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        clock=time.monotonic,
        work=time.process_time,
        sleep=time.sleep,
    )
    archive_all(CallQueue(folder), world)
    return 0


def own_options(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without export options: a runtime may have them from a stranger's project."""
    strange = {f"OPEN_TOKEN_{name.upper()}" for name in NAMES}
    return {name: value for name, value in env.items() if name not in strange}


def archive_in(named: str, env: Mapping[str, str], cwd: Path) -> Archive:
    """The archive in a folder, or the one in the data folder, with the options of the user's
    settings."""
    settings = load_settings(env, cwd)
    options = ExportOptions.of(settings.defaults)
    folder = Path(named) if named else settings.folders.data / "archive"
    return Archive(folder, lambda: context_for(options, settings, env), time.time)
