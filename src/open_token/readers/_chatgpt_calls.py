"""Pairs the calls of a ChatGPT export with their results, which have no ids: by place in the tree,
name and order."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from open_token.draft import Draft


@dataclass
class _Call:
    """A call and whether it has its result."""

    key: str
    tool: str
    is_open: bool = True


@dataclass
class _Result:
    """A result under way: a tool may give one call several messages, such as one for each page it
    opened."""

    key: str | None
    tool: str | None
    outputs: list[Any]
    facts: dict[str, Any]
    ts: str | None


@dataclass
class _Line:
    """What is open on one line of the tree: calls by the node that made them, and in order by
    tool."""

    by_node: dict[str, _Call] = field(default_factory=dict)
    by_tool: dict[str, deque[_Call]] = field(default_factory=dict)
    result: _Result | None = None

    def add(self, call: _Call, node: str) -> None:
        self.by_node[node] = call
        for name in {call.tool, _family(call.tool), ""}:
            self.by_tool.setdefault(name, deque()).append(call)

    def first(self, tool: str) -> _Call | None:
        """The first open call of a tool; of any tool when it has no name."""
        calls = self.by_tool.get(tool, deque())
        while calls and not calls[0].is_open:
            calls.popleft()
        return calls[0] if calls else None

    def of(self, parent: str | None, tool: str | None) -> _Call | None:
        """The call that a result answers: the node right above it, unless another one is of the
        same tool."""
        above = self.by_node.get(parent or "")
        above = above if above is not None and above.is_open else None
        if above is not None and (tool is None or _family(tool) == _family(above.tool)):
            return above
        if tool is None:
            return self.first("")
        return self.first(tool) or self.first(_family(tool)) or above


def _family(tool: str) -> str:
    """Some results of `web.run` say `web`, and the other way round."""
    return f"{tool.partition('.')[0]}."


class OpenCalls:
    """The calls that wait for a result, on the line that is being told."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._lines = [_Line()]

    def fork(self) -> None:
        """A branch is next; what it calls is its own affair."""
        self.flush()
        self._lines.append(_Line())

    def join(self) -> None:
        """The branch is over."""
        self.flush()
        self._lines.pop()

    def make(self, node: str, tool: str, arguments: Any, actor: str, ts: str | None) -> None:
        """The message of a node is a call."""
        key = self._draft.tool_use(None, tool, arguments, actor, ts=ts)
        self._lines[-1].add(_Call(key, tool), node)

    def forget(self) -> None:
        """The person spoke: what is still open gets no result any more."""
        self._lines[-1] = _Line(result=self._lines[-1].result)

    def answer(
        self,
        parent: str | None,
        tool: str | None,
        output: Any,
        facts: dict[str, Any],
        ts: str | None,
    ) -> None:
        """A message of a tool, which stands below the node `parent`."""
        line = self._lines[-1]
        call = line.of(parent, tool)
        if call is None and line.result is not None and line.result.tool == tool:
            line.result.outputs.append(output)
            line.result.facts = _joined(line.result.facts, facts)
            return
        self.flush()
        if call is not None:
            call.is_open = False
        line.result = _Result(call.key if call else None, tool, [output], facts, ts)

    def flush(self) -> None:
        """Tell the result under way."""
        result, self._lines[-1].result = self._lines[-1].result, None
        if result is not None:
            output = result.outputs[0] if len(result.outputs) == 1 else _blocks(result.outputs)
            self._draft.tool_result(
                result.key, output, ts=result.ts, facts=result.facts, tool=result.tool
            )


def _blocks(outputs: list[Any]) -> list[Any]:
    made: list[Any] = []
    for output in outputs:
        if isinstance(output, list):
            made += output
        elif output:
            made.append({"type": "text", "text": output})
    return made


def _joined(known: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Facts of several messages as one: lists end to end, else the last."""
    joined = dict(known)
    for name, value in more.items():
        old = joined.get(name)
        joined[name] = old + value if isinstance(old, list) and isinstance(value, list) else value
    return joined
