"""Pairing of tool results with calls: a result names its tool, but not its call."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import Draft


@dataclass
class _Call:
    key: str
    tool: str
    is_open: bool = True


@dataclass
class _Result:
    """A result being collected; a tool may send several messages, e.g. one for each opened page."""

    key: str | None
    tool: str | None
    outputs: list[Any]
    facts: dict[str, Any]
    ts: str | None


@dataclass
class _Branch:
    """The unanswered calls on one branch of the tree, and the result being collected."""

    by_node: dict[str, _Call] = field(default_factory=dict)
    by_tool: dict[str, deque[_Call]] = field(default_factory=dict)
    """In order, by name and family of the tool; all calls are under the empty name."""
    result: _Result | None = None

    def add(self, call: _Call, node: str) -> None:
        self.by_node[node] = call
        for name in {call.tool, _get_family(call.tool), ""}:
            self.by_tool.setdefault(name, deque()).append(call)

    def find_first(self, tool: str) -> _Call | None:
        """Return the first unanswered call of a tool."""
        calls = self.by_tool.get(tool, deque())
        while calls and not calls[0].is_open:
            calls.popleft()
        return calls[0] if calls else None

    def find(self, parent: str | None, tool: str | None) -> _Call | None:
        """Return the call that a result answers: its parent node, if that called the same tool."""
        call = self.by_node.get(parent or "")
        if call is not None and not call.is_open:
            call = None
        if tool is None:
            return call or self.find_first("")
        family = _get_family(tool)
        if call is not None and family == _get_family(call.tool):
            return call
        return self.find_first(tool) or self.find_first(family) or call


def _get_family(tool: str) -> str:
    """Return the first part of a tool's name: results of `web.run` may be from `web`."""
    return f"{tool.partition('.')[0]}."


class CallTracker:
    """Adds calls and results to the draft, on the branch that is being read."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._branches = [_Branch()]

    def begin_branch(self) -> None:
        """Start a branch, which does not answer calls of the branch it leaves."""
        self.flush()
        self._branches.append(_Branch())

    def end_branch(self) -> None:
        """Return to the previous branch."""
        self.flush()
        self._branches.pop()

    def add_call(self, node: str, tool: str, arguments: Any, actor: str, ts: str | None) -> None:
        """Add the call that the message of a node is."""
        # The export has no ids of calls: the draft makes one up, and results are paired by node.
        key = self._draft.add_tool_call(None, tool, arguments, actor, ts=ts)
        branch = self._branches[-1]
        branch.add(_Call(key, tool), node)

    def drop_open_calls(self) -> None:
        """Expect no results any more for calls made before a message of the user."""
        self._branches[-1] = _Branch(result=self._branches[-1].result)

    def add_result(
        self,
        parent: str | None,
        tool: str | None,
        output: Any,
        facts: dict[str, Any],
        ts: str | None,
    ) -> None:
        """Add a message of a tool, whose parent is the node `parent`."""
        branch = self._branches[-1]
        call = branch.find(parent, tool)
        if call is None and branch.result is not None and branch.result.tool == tool:
            branch.result.outputs.append(output)
            branch.result.facts = _merge_facts(branch.result.facts, facts)
            return
        self.flush()
        if call is not None:
            call.is_open = False
        branch.result = _Result(call.key if call else None, tool, [output], facts, ts)

    def flush(self) -> None:
        """Add the result being collected to the draft."""
        result = self._branches[-1].result
        self._branches[-1].result = None
        if result is None:
            return
        output = result.outputs[0] if len(result.outputs) == 1 else _merge_outputs(result.outputs)
        self._draft.add_tool_result(
            result.key, output, ts=result.ts, facts=result.facts, tool=result.tool
        )


def _merge_outputs(outputs: list[Any]) -> list[Any]:
    blocks: list[Any] = []
    for output in outputs:
        if isinstance(output, list):
            blocks += output
        elif output:
            blocks.append({"type": "text", "text": output})
    return blocks


def _merge_facts(known: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Merge facts of several messages: lists are concatenated, of others the last counts."""
    merged = dict(known)
    for name, value in more.items():
        previous = merged.get(name)
        if isinstance(previous, list) and isinstance(value, list):
            merged[name] = previous + value
        else:
            merged[name] = value
    return merged
