"""Open-Token: convert conversations with AI agents to one open format.

>>> import open_token
>>> document = open_token.export("session.jsonl", redact="pii")   # doctest: +SKIP
>>> open_token.validate(document)                                  # doctest: +SKIP
[]
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from open_token.api import (
        blame,
        conversations,
        diff,
        export,
        export_file,
        read,
        search,
        sign,
        verify,
    )
    from open_token.dataset.read import read_arrow
    from open_token.errors import InputError, OpenTokenError, OutputError, UsageError
    from open_token.library.restore import restore_files
    from open_token.model.document import Event, Export
    from open_token.validation.validate import validate

__all__ = [
    "Event",
    "Export",
    "InputError",
    "OpenTokenError",
    "OutputError",
    "UsageError",
    "blame",
    "conversations",
    "diff",
    "export",
    "export_file",
    "read",
    "read_arrow",
    "restore_files",
    "search",
    "sign",
    "validate",
    "verify",
]


def __getattr__(name: str) -> "Any":
    """Import a public name on first use, so that `import open_token` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module 'open_token' has no attribute {name!r}")
    module: Any
    if name in ("Event", "Export"):
        import open_token.model.document as module
    elif name.endswith("Error"):
        import open_token.errors as module
    elif name == "validate":
        import open_token.validation.validate as module
    elif name == "restore_files":
        import open_token.library.restore as module
    elif name == "read_arrow":
        import open_token.dataset.read as module
    else:
        import open_token.api as module
    return getattr(module, name)
