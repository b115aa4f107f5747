"""Open-Token: the open record of what agents and people said and did.

>>> import open_token
>>> document = open_token.export("session.jsonl", redact="pii")   # doctest: +SKIP
>>> open_token.validate(document)                                  # doctest: +SKIP
[]
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from open_token.checking.validate import validate
    from open_token.errors import InputError, OpenTokenError, OutputError, UsageError
    from open_token.library import conversations, diff, export, export_file, read
    from open_token.model import Event, Export
    from open_token.restore import restore_files
    from open_token.vouching import sign, verify

__all__ = [
    "Event",
    "Export",
    "InputError",
    "OpenTokenError",
    "OutputError",
    "UsageError",
    "conversations",
    "diff",
    "export",
    "export_file",
    "read",
    "restore_files",
    "sign",
    "validate",
    "verify",
]

_WHERE = {
    "Event": "model",
    "Export": "model",
    "InputError": "errors",
    "OpenTokenError": "errors",
    "OutputError": "errors",
    "UsageError": "errors",
    "conversations": "library",
    "diff": "library",
    "export": "library",
    "export_file": "library",
    "read": "library",
    "restore_files": "restore",
    "sign": "vouching",
    "validate": "checking.validate",
    "verify": "vouching",
}


def __getattr__(name: str) -> "Any":
    """Load a name of the library when it is first used, so that the import stays light."""
    if name not in _WHERE:
        raise AttributeError(f"module 'open_token' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"open_token.{_WHERE[name]}"), name)
