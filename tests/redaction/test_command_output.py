"""A call that prints a secret says what its result is."""

from typing import Any

import pytest

from open_token.context import Context
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.redaction.redactor import redact

VALUE = "Kr4tze-Baum"


def mask_output(command: str, output: Any) -> Any:
    """Return the masked output of a command."""
    body = {"text": output, "mime": "text/plain"}
    call = {"tool_name": "Bash", "arguments": {"command": command}}
    events: list[Any] = [
        {"id": "e1", "seq": 1, "type": "tool_use", "links": {"call_id": "c"}},
        {"id": "e2", "seq": 2, "type": "tool_result", "links": {"call_id": "c"}, "content": body},
    ]
    events[0]["content"] = {"mime": "application/json", "data": call}
    typed: list[Event] = events
    record = Record(conversation={"id": "c"}, participants=[], events=typed)
    masked = list(redact(record, Context(ExportOptions(), key=bytes(32))).events)
    return masked[1]["content"].get("text")


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.config/token",
        "cat secrets/db_password.txt",
        "vault kv get -field=value kv/db",
        "gcloud secrets versions access latest --secret=db",
        "echo $DB_PASSWORD",
        "aws secretsmanager get-secret-value --secret-id db --query SecretString --output text",
        "cd /srv && op read op://vault/db/password",
    ],
)
def test_the_output_of_a_command_that_prints_a_secret_is_masked(command: str) -> None:
    assert VALUE not in mask_output(command, VALUE + "\n")


def test_the_value_in_a_row_with_a_name_is_masked() -> None:
    output = f"Key         Value\n---         -----\npassword    {VALUE}\nversion     1.2.3\n"
    masked = mask_output("vault kv get kv/db", output)
    assert VALUE not in masked
    assert "version     1.2.3" in masked


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat notes.txt", VALUE),
        ("cat token.py", "import tokenize\n\nclass Token2:\n    pass\n"),
        ("cat token", "cat: token: No such file or directory"),
        ("vault kv get kv/db", "Permission denied"),
        ("grep -rn token src", "src/token.py:12"),
    ],
)
def test_other_output_stays(command: str, output: str) -> None:
    assert mask_output(command, output) == output
