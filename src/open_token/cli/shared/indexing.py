"""The search index as commands use it: brought up to date first, with progress on a terminal."""

import contextlib
from collections.abc import Iterator

from open_token.api import build_index_context, find_indexed_sessions
from open_token.cli.shared.console import Console, pluralize
from open_token.cli.shared.jobs import SessionsProgress
from open_token.errors import InputError
from open_token.library.index import SearchIndex
from open_token.library.jobs import count_cores
from open_token.settings import Settings, load_settings


@contextlib.contextmanager
def open_index(
    console: Console, *, update: bool = True, jobs: int | None = None
) -> Iterator[SearchIndex]:
    """Open the index of this user, brought up to date unless that is not wanted.

    By default it is updated in a process for each core."""
    settings = load_settings(console.env, console.cwd)
    with SearchIndex(settings.folders.cache) as index:
        if update:
            update_index(index, settings, console, jobs or count_cores())
        yield index


def update_index(index: SearchIndex, settings: Settings, console: Console, jobs: int) -> None:
    """Index what is new or has changed; an update that takes long shows how far it is."""
    cwd = None
    with contextlib.suppress(InputError):
        cwd = console.cwd
    sessions = find_indexed_sessions(settings, console.env, console.home, cwd)
    context = build_index_context(settings, console.env)
    bar = SessionsProgress("indexing", console)
    with contextlib.closing(bar):
        result = index.update(sessions, context, bar.report, bar.begin, jobs)
    if result is None:
        console.info("another process is updating the index; results may be incomplete")
    elif result.failed:
        noun = pluralize(result.failed, "session")
        console.info(f"{noun} could not be read; see `open-token index --status`")
