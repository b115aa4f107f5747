"""Read a task or a session of Cline, whichever the input is."""

from open_token.agents.cline.session import Session
from open_token.agents.cline.shapes import SESSION, is_session, of_folder
from open_token.agents.cline.task import Task
from open_token.builder.draft import Draft
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    if source.shape == "folder":
        is_new_layout = bool(source.find_files(SESSION)) and not of_folder(source)
    else:
        is_new_layout = is_session(source)
    if is_new_layout:
        Session(source, draft).read()
    else:
        Task(source, draft).read()
