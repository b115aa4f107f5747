"""Readers: one public module per runtime or format. The table is lazy, so that start-up stays
light."""

from importlib import import_module
from itertools import islice
from typing import Protocol, cast

from open_token.draft import Draft
from open_token.errors import InputError, SeveralError, UsageError
from open_token.model import Found
from open_token.source import SAMPLE_RECORDS, Source


class Reader(Protocol):
    """What a reader module defines."""

    __name__: str
    TITLE: str
    """The name a person knows the format by."""
    PLACES: tuple[str, ...]
    """Where its conversations live: globs below the home folder, below one that `$NAME` in the
    environment names, or below the working folder (`./...`); one that ends in a slash means
    folders."""

    def sniff(self, source: Source) -> bool:
        """Whether the content is of this format."""
        ...

    def read(self, source: Source, draft: Draft) -> None:
        """Tell the conversation to the draft, in source order."""
        ...


SIGNS: dict[str, tuple[bytes, ...]] = {
    "ag_ui": (b'"RUN_', b'"TEXT_MESSAGE_', b'"TOOL_CALL_', b'"MESSAGES_SNAPSHOT"', b'"threadId"'),
    "ai_studio": (b'"chunkedPrompt"',),
    "aider": (b"# aider chat started at",),
    "amp": (b'"T-',),
    "anthropic_messages": (),
    "atif": (b'"ATIF-v',),
    "chatgpt_export": (b'"mapping"',),
    "claude_ai_export": (b'"chat_messages"',),
    "claude_code": (),
    "cline": (
        b"<task>",
        b"<environment_details>",
        b"<user_message>",
        b'"modelInfo"',
        b'"say"',
        b'"files_in_context"',
    ),
    "codex": (),
    "copilot_cli": (b'"parentId"',),
    "cursor": (b'"message"',),
    "gemini_api": (),
    "gemini_cli": (b'"projectHash"',),
    "goose": (b'"working_dir"', b'"created"'),
    "grok_cli": (
        b'"prompt_index"',
        b'"synthetic_reason"',
        b'"model_id"',
        b'{"type":"system"',
        b'{"type": "system"',
    ),
    "grok_export": (b'"responses"', b'"media_posts"'),
    "http_recording": (b"interactions", b'"log"'),
    "iflow": (b'"session-', b'"response-', b'"responseParts"'),
    "inspect_ai": (b'"eval"', b'"epoch"'),
    "kimi_cli": (b'"protocol_version"', b'"context.append_', b'"TurnBegin"'),
    "langchain": (
        b'"lc"',
        b'"human"',
        b'"ai"',
        b"MessageChunk",
        b'{"content"',
        b'"additional_',
        b'"run_',
        b'"inputs"',
    ),
    "open_token": (),
    "openai_agents": (b'"$schemaVersion"',),
    "openai_chat": (),
    "openai_responses": (),
    "opencode": (b'"sessionID"', b'"projectID"', b'"directory"', b'"slug"'),
    "openhands": (
        b'"source"',
        b'"observation"',
        b'"action"',
        b'"agent"',
        b'"latency_sec"',
        b'"messages"',
        b'"input"',
        b'"instance_id"',
    ),
    "otel_genai": (
        b'"resourceSpans"',
        b'"resource_spans"',
        b'"resourceLogs"',
        b'"resource_logs"',
        b'"trace_id"',
    ),
    "pi": (b'"session"', b'"parentId"', b'"toolResult"'),
    "pydantic_ai": (b'"part_kind"', b'"parts"'),
    "qwen_code": (b'"parts"', b'"systemPayload"'),
    "session_server": (
        b'"turn_id"',
        b'"patch_type"',
        b'"turns"',
        b'"nodes"',
        b'"session.created"',
        b'"imported"',
    ),
    "sharegpt": (b'"from"', b'"images"', b'"videos"', b'"audios"'),
    "swe_agent": (b'"history"', b'"trajectory"', b'"trajectory_format"', b'"info"', b"history:"),
    "vercel_ui": (
        b'"parts"',
        b'"toolInvocations"',
        b'"experimental_attachments"',
        b'-start"',
        b'"start-step"',
    ),
}
"""The public modules here, in order of name, as a test makes sure, each with bytes of which one
must stand in the first 64 kB of such an input: a filter, so that few modules are loaded at a start.
No bytes: it is always asked."""
CONTAINERS: dict[str, tuple[str, ...]] = {
    "sqlite": ("cursor", "goose", "opencode"),
    "zip": ("chatgpt_export", "claude_ai_export", "grok_export", "inspect_ai"),
    "folder": (
        "chatgpt_export",
        "claude_ai_export",
        "cline",
        "copilot_cli",
        "grok_export",
        "opencode",
        "openhands",
    ),
}
"""Who is asked about an input that holds several files or tables."""
NAMES = tuple(SIGNS)


def load(name: str) -> Reader:
    """The reader of that name."""
    name = name.replace("-", "_")
    if name not in NAMES:
        raise UsageError(f"there is no reader {name}", help=f"the readers are {', '.join(NAMES)}")
    return cast(Reader, import_module(f"{__name__}.{name}"))


_EXPORT = "open_token"
"""It says by name what it is; its events may hold keys of any runtime's."""


def choose(source: Source) -> str:
    """The one reader that claims the content; none or several is an error that says so."""
    if source.shape == "empty":
        raise InputError(
            "the input is empty",
            where=source.name,
            help="name a file that holds a conversation",
            code="input.empty",
        )
    if source.shape == "binary":
        raise InputError(
            "the input is binary data, not a conversation this version reads",
            where=source.name,
            help="list what can be read with `open-token formats`",
            code="input.binary",
        )
    claims = [name for name in _candidates(source) if load(name).sniff(source)]
    if _EXPORT in claims:
        return _EXPORT
    if len(claims) == 1:
        return claims[0]
    if claims:
        raise InputError(
            f"{' and '.join(claims)} both claim this input",
            where=source.name,
            help=f"say which it is: --from {claims[0]} or --from {claims[1]}",
            code="input.ambiguous",
        )
    if source.shape not in CONTAINERS:
        for _ in islice(source.records(), SAMPLE_RECORDS):
            pass  # an input that does not parse says where, which helps more than 'unknown'
    raise InputError(
        f"this is no conversation I know (tried {len(NAMES)} formats)",
        where=source.name,
        help="name the format with --from NAME; list them with `open-token formats`",
        code="input.unknown",
    )


def conversations(source: Source, name: str) -> list[Found]:
    """What a source holds, where its format can hold several conversations; else nothing."""
    lister = getattr(load(name), "conversations", None)
    return cast(list[Found], lister(source)) if lister else []


def pick(source: Source, name: str, wanted: str) -> Found:
    """Choose one of several by its id, its number in the list, or the start of its id."""
    found = conversations(source, name)
    if not found and wanted == "1":
        return Found("1")
    exact = [item for item in found if item.id == wanted]
    if not exact and wanted.isdecimal() and 1 <= int(wanted) <= len(found):
        exact = [found[int(wanted) - 1]]
    matching = exact or [item for item in found if item.id.startswith(wanted)]
    if len(matching) != 1:
        what = (
            "several conversations start with that"
            if matching
            else "there is no such conversation in this input"
        )
        way = (
            f"it holds {len(found):,}; give an id, or a number in the list"
            if found
            else "it holds one; leave --conversation out"
        )
        raise InputError(what, where=source.name, help=way, code="input.conversation")
    source.conversation = matching[0].id if len(found) > 1 else None
    return matching[0]


def be_one(source: Source, name: str) -> None:
    """An error that lists them when a source holds several conversations and none was chosen."""
    if source.conversation is None and len(found := conversations(source, name)) > 1:
        raise SeveralError(
            f"this input holds {len(found):,} conversations",
            found=found,
            where=source.name,
            help="choose one with --conversation ID or its number in the list",
        )


def _candidates(source: Source) -> list[str]:
    """The readers that an input could be for, by its kind and its first bytes."""
    if source.shape in CONTAINERS:
        return [name for name in NAMES if name in CONTAINERS[source.shape]]
    head = source.head
    quoted = set(head.split(b'"')[1:-1])
    return [
        name
        for name in NAMES
        if not (signs := SIGNS.get(name)) or any(_stands_in(head, quoted, sign) for sign in signs)
    ]


def _stands_in(head: bytes, quoted: set[bytes], sign: bytes) -> bool:
    """Whether a sign is there; of those that are a word in quotes one look at all such words tells
    it faster."""
    word = sign[1:-1]
    if sign == b'"%b"' % word and b'"' not in word:
        return word in quoted
    return sign in head
