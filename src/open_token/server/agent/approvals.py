"""Approvals: whether a tool call may run, by the rules of the settings and the user's decision."""

from open_token.model.log_events import Json
from open_token.model.session_types import ToolCallProjection
from open_token.server.agent import tool_calls
from open_token.server.agent.run_context import RunContext
from open_token.server.agent.tools.interface import ToolError
from open_token.session import SessionState

ALLOW = "Allow"
ALWAYS = "Allow always in this session"
DENY = "Deny"
OPTIONS = (ALLOW, ALWAYS, DENY)
_YES = frozenset({"allow", "yes", "y", "ok"})
_MAX_SHOWN = 500


def check_call(context: RunContext, call: ToolCallProjection, state: SessionState) -> list[Json]:
    """Return the question to the user that comes before a call, if any; raise ToolError to deny."""
    arguments = tool_calls.parse_arguments(call)
    decision = context.settings.decide(call.tool_name, arguments)
    if decision == "deny":
        raise ToolError("a rule of this session denies this call")
    is_approved = call.id in state.approved or call.tool_name in state.approved_tools
    if decision == "allow" or is_approved:
        return []
    if context.request.headless:
        raise ToolError("this call needs an approval, and there is nobody to ask in this run")
    shown = call.arguments
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[:_MAX_SHOWN]} ..."
    question = f"May {context.display_name(call.tool_name)} run? {shown}"
    options = [{"label": label} for label in OPTIONS]
    return [{"question": question, "header": "Approval", "options": options}]


def decide(answer: Json) -> Json:
    """Return an answer to an approval with its decision, and the reason of a denial.

    Text other than a yes denies the call, and is the reason."""
    selected = answer["selections"].get("0", [])
    custom = str(answer["custom"].get("0", "")).strip()
    if isinstance(selected, list) and selected and selected[0] in (0, 1):
        decision = {"decision": "allow", "scope": "session" if selected[0] == 1 else "call"}
    elif custom.lower() in _YES:
        decision = {"decision": "allow", "scope": "call"}
    else:
        decision = {"decision": "deny", "reason": custom}
    return {**answer, **decision}


def build_denial(answer: Json) -> Json:
    """Return the result of a call that the user denied."""
    message = "the user denied this call"
    if answer["reason"]:
        message += f": {answer['reason']}"
    return {"error": message}
