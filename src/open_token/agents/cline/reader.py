"""Read a task or a session of Cline, whichever the input is."""

from open_token.agents.cline.detect import SESSION_FILES, is_session_file, list_task_files
from open_token.agents.cline.session import SessionReader
from open_token.agents.cline.task import TaskReader
from open_token.builder.draft import Draft
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    if source.shape == "folder":
        is_session = bool(source.find_files(SESSION_FILES)) and not list_task_files(source)
    else:
        is_session = is_session_file(source)
    if is_session:
        SessionReader(source, draft).read()
    else:
        TaskReader(source, draft).read()
