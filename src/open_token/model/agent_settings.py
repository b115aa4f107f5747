"""How an agent works: the settings of a profile, of a session, or of one message."""

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

Json = dict[str, Any]
Effort = Literal["minimal", "low", "medium", "high"]
ApprovalAction = Literal["allow", "ask", "deny"]
FileInput = Literal["image", "pdf"]

_Pattern = Annotated[str, Meta(min_length=1, max_length=200)]


class ApprovalRule(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Whether calls of a tool may run; the first rule that matches a call decides."""

    tool: _Pattern
    """A tool name, or a pattern with `*`, `?` and `[...]`."""
    action: ApprovalAction
    arguments: dict[str, _Pattern] = field(default_factory=dict)
    """Patterns for arguments by name; all of them must match."""

    def matches(self, tool_name: str, arguments: Json) -> bool:
        """Return whether the rule is about a call."""
        if not fnmatchcase(tool_name, self.tool):
            return False
        for name, pattern in self.arguments.items():
            if not fnmatchcase(_to_text(arguments.get(name, "")), pattern):
                return False
        return True


class ClientTool(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool that the client executes: the run stops at a call, and the client sends the result."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    description: Annotated[str, Meta(max_length=10_000)] = ""
    parameters: Json = field(default_factory=lambda: {"type": "object", "properties": {}})
    """A JSON Schema of type `object`."""
    display_name: Annotated[str, Meta(max_length=100)] = ""


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a session may use in total; a run that reaches it ends with the reason `budget`."""

    tokens: Annotated[int, Meta(ge=1)] | None = None
    """Input and output tokens."""
    cost: Annotated[float, Meta(gt=0)] | None = None
    """Estimated cost in US dollars; the prices of the models must be known."""


class AgentSettings(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How an agent works; what is not set is decided by the server."""

    instructions: Annotated[str, Meta(min_length=1, max_length=100_000)] | None = None
    """What the agent is told first, instead of the standard text."""
    model: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    thinking: bool | None = None
    """Whether the model is to show its reasoning; by default, where it can."""
    effort: Effort | None = None
    """How much the model is to think."""
    tools: Annotated[list[_Pattern], Meta(max_length=200)] | None = None
    """Names or patterns of the tools that are offered, such as `Read` or `mcp__github__*`."""
    client_tools: Annotated[list[ClientTool], Meta(max_length=128)] | None = None
    approvals: Annotated[list[ApprovalRule], Meta(max_length=200)] | None = None
    """Rules for tool calls; a call that no rule matches is allowed."""
    compaction_ratio: Annotated[float, Meta(gt=0, le=1)] | None = None
    """The share of the context window at which the conversation is compacted."""
    context_window: Annotated[int, Meta(ge=1000, le=100_000_000)] | None = None
    """The context window in tokens, if the service does not report it."""
    accepts: list[FileInput] | None = None
    """What the model takes besides text; by default what is known of it."""
    max_turns: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """The maximum number of model calls per message."""
    budget: Budget | None = None

    def decide(self, tool_name: str, arguments: Json) -> ApprovalAction:
        """Return what the approval rules say of a call."""
        for rule in self.approvals or ():
            if rule.matches(tool_name, arguments):
                return rule.action
        return "allow"

    def offers(self, tool_name: str) -> bool:
        """Return whether a tool of the server is offered to the model."""
        if self.tools is None:
            return True
        return any(fnmatchcase(tool_name, pattern) for pattern in self.tools)


def parse_settings(value: Any) -> AgentSettings:
    """Parse settings; raise msgspec.ValidationError, whose message contains no value."""
    return msgspec.convert(value, AgentSettings)


def dump_settings(settings: AgentSettings) -> Json:
    """Return the settings that are set."""
    values: Json = msgspec.to_builtins(settings)
    return values


def merge_settings(base: Json, changes: Json) -> Json:
    """Return settings with changes; `None` resets a setting."""
    merged = {**base, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
