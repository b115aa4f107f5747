"""Pages of an archive: each document as HTML or Markdown beside it, and a page that lists all."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from open_token.context import Context
from open_token.library.archive.index import CURRENT, EARLIER, GONE, Entry, list_archived_files
from open_token.library.archive.names import choose_day, is_archive_name
from open_token.library.jobs import Outcome, limit_jobs, run_jobs
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.storage.files import atomic_file, remove_file
from open_token.writers.html.listing import ListedSession, write
from open_token.writers.markdown import escape_line

PAGE_SUFFIXES = {"html": ".html", "markdown": ".md"}
_STEM = "index"
_TITLE = "Archived sessions"
_READER = "open_token"
_REMARKS = {
    CURRENT: "",
    GONE: "gone at the source",
    EARLIER: "an earlier version",
}


class PageWriter:
    """Writes the page of one document of an archive; works the same in any process."""

    def __init__(self, folder: Path, context: Context, to: str) -> None:
        self._folder = folder
        options = context.options.changed(mode="json", pretty=False, native="none")
        self._context = replace(context, options=options)
        self._to = to

    def __call__(self, name: str) -> None:
        """Write the page beside a document; a page is there as a whole or not at all."""
        source = Source.of(self._folder / name, name)
        with atomic_file(find_page(self._folder, name, self._to), 0o600) as out:
            export(source, out, self._context, _READER, to=self._to)


def find_page(folder: Path, name: str, to: str) -> Path:
    """Return the path of the page of a document."""
    return (folder / name).with_suffix(PAGE_SUFFIXES[to])


def update_pages(
    folder: Path,
    context: Context,
    to: str,
    entries: Iterable[Entry],
    *,
    again: bool = False,
    jobs: int = 1,
) -> Generator[Outcome[str, None], None, None]:
    """Write the pages that are missing or older than their documents, then the page of all.

    Yields an outcome for each page; one that could not be written does not stop the others.
    """
    names = set(list_archived_files(folder))
    _remove_orphans(folder, names, to)
    due = sorted(name for name in names if again or _is_stale(folder, name, to))
    sizes = [(folder / name).stat().st_size for name in due]
    writer = PageWriter(folder, context, to)
    yield from run_jobs(writer, due, limit_jobs(jobs, sizes))
    listed = [entry for entry in entries if entry.file in names]
    sessions = [
        _describe(entry, to)
        for entry in sorted(listed, key=_get_moment, reverse=True)
        if find_page(folder, str(entry.file), to).exists()
    ]
    with atomic_file(folder / f"{_STEM}{PAGE_SUFFIXES[to]}", 0o600) as out:
        if to == "html":
            write(sessions, _TITLE, out)
        else:
            out.write(_render_markdown(sessions).encode("utf-8", "replace"))


def _is_stale(folder: Path, name: str, to: str) -> bool:
    try:
        page = find_page(folder, name, to).stat()
    except OSError:
        return True
    return page.st_mtime_ns < (folder / name).stat().st_mtime_ns


def _remove_orphans(folder: Path, names: set[str], to: str) -> None:
    """Remove pages whose document was replaced by one of another name."""
    kept = {find_page(folder, name, to) for name in names}
    for page in folder.glob(f"*/*{PAGE_SUFFIXES[to]}"):
        if is_archive_name(page.name) and page not in kept:
            remove_file(page)


def _get_moment(entry: Entry) -> tuple[str, str, str]:
    moment = entry.started_at or entry.archived_at or ""
    return choose_day(str(entry.id), moment), moment, str(entry.file)


def _describe(entry: Entry, to: str) -> ListedSession:
    page = find_page(Path(), str(entry.file), to)
    return ListedSession(
        file=page.as_posix(),
        title=entry.heading or entry.title or str(entry.id),
        agent=entry.reader.replace("_", "-"),
        day=_get_moment(entry)[0],
        events=entry.events,
        remark=_REMARKS.get(entry.state, ""),
    )


def _render_markdown(sessions: Sequence[ListedSession]) -> str:
    lines = [f"# {_TITLE}", ""]
    day = ""
    for session in sessions:
        if session.day != day:
            day = session.day
            lines += ["", f"## {day}", ""]
        facts = [session.agent]
        if session.remark:
            facts.append(session.remark)
        title = escape_line(session.title)
        lines.append(f"- [{title}]({quote(session.file)}) · {' · '.join(facts)}")
    return "\n".join(lines) + "\n"
