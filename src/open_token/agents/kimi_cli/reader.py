"""One Kimi session: which of the two logs it is, the subagents beside it, and what the whole is
called."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.kimi_cli.event_log import Log
from open_token.agents.kimi_cli.wire_log import Wire
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.jsontools.timestamps import from_epoch
from open_token.sources.source import Source

_FILE, _MAIN = "wire.jsonl", "main"
_FLAT = re.compile(r"(?:subagent_)?(agent-[A-Za-z0-9_-]{1,60})\.jsonl")
Body = dict[str, Any]


class Session:
    """Reads a session's log with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._place = PurePath(source.name).parts
        self._alone, self._agent_id = self._own_agent()
        self._main = Thread(
            draft, draft.get_actor("system", "Kimi Code CLI"), _provider, agent_id=self._agent_id
        )
        if self._alone:
            self._main.user_actor = draft.get_actor("model", "parent agent")
        self._agents = SubagentWriter(self._run)
        self._beside: dict[str, SubagentFile] | None = None

    def read(self) -> None:
        """Tell everything."""
        self._run(self._source, self._main)
        rest = list(self._files().values()) if self._is_filed() and not self._alone else []
        self._agents.finish(rest, self._main)
        self._name()

    def _run(self, source: Source, strand: Thread) -> None:
        """Tell the records of a file."""
        log: Log | Wire = Wire(strand) if _is_wire(source) else Log(strand, self._spawned)
        for number, record in source.records():
            log.record(record, f"line {number}")
        log.finish()

    def _spawned(self, log: Log, names: list[str], call: str | None, arguments: Body) -> None:
        """Calls are about to be answered for which subagents worked: what they did stands before
        that."""
        kind, reason = (
            as_text(arguments.get("subagent_type")),
            as_text(arguments.get("description")),
        )
        data: Body = {"spawn_reason": reason or as_text(arguments.get("prompt"))}
        data |= {"tooling_scope": kind, "subagent_type": kind}
        for name in names:
            agent = self._files().get(name)
            if agent is not None:
                agent.kind = kind
                agent.data = {key: value for key, value in data.items() if value}
                self._agents.add(agent, log.strand, call)

    def _is_filed(self) -> bool:
        """Whether it lies where Kimi put it, so that the files beside it are of the same
        session."""
        return len(self._place) > 3 and self._place[-1] == _FILE and self._place[-3] == "agents"

    def _files(self) -> dict[str, SubagentFile]:
        """The files of subagents by their ids: in folders beside this one's, or, copied out, beside
        it."""
        if self._beside is None:
            self._beside = {}
            own = PurePath(self._source.name)
            for source in self._source.find_siblings(f"../*/{_FILE}") if self._is_filed() else []:
                name = PurePath(source.name).parts[-2]
                if name not in (_MAIN, own.parts[-2]):
                    self._beside[name] = SubagentFile(name, source, started=_started(source))
            for source in [] if self._is_filed() else self._source.find_siblings("*agent-*.jsonl"):
                found = _FLAT.fullmatch(PurePath(source.name).name)
                if found and PurePath(source.name).name != own.name:
                    self._beside[found[1]] = SubagentFile(
                        found[1], source, started=_started(source)
                    )
        return self._beside

    def _own_agent(self) -> tuple[bool, str | None]:
        """Whether this is the file of a subagent alone, and its id where that is known."""
        prompt = next(
            (
                r
                for r in self._source.sample
                if isinstance(r, dict) and r.get("type") == "turn.prompt"
            ),
            {},
        )
        origin = prompt.get("origin")
        if not isinstance(origin, dict) or origin.get("name") != "subagent":
            return False, None
        if self._is_filed():
            return True, self._place[-2]
        found = _FLAT.fullmatch(self._place[-1]) if self._place else None
        return True, found[1] if found else None

    def _name(self) -> None:
        conversation, state = self._draft.conversation, self._state()
        if self._is_filed():
            session = self._place[-4]
            conversation["id"] = f"{session}_{self._agent_id}" if self._agent_id else session
        elif len(self._place) > 1 and self._place[-1] == _FILE:
            conversation["id"] = self._place[-2]
        if title := as_text(state.get("title")) or as_text(state.get("custom_title")):
            conversation["title"] = title
        started = _started(self._source) or self._draft.first_ts
        if started:
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        conversation["provider"] = "other"

    def _state(self) -> Body:
        """What Kimi noted of the session beside its logs."""
        if self._alone or self._place[-1:] != (_FILE,):
            return {}
        found = self._source.find_siblings("../../state.json" if self._is_filed() else "state.json")
        try:
            state = found[0].document if found else None
        except InputError:
            self._draft.note_omission("broken-file", "state.json", "this is not JSON")
            state = None
        return state if isinstance(state, dict) else {}


def _is_wire(source: Source) -> bool:
    """Whether it is a log of the Python CLI, whose records are messages on a wire."""
    return any(
        isinstance(r, dict) and "timestamp" in r and isinstance(r.get("message"), dict)
        for r in source.sample
    )


def _started(source: Source) -> str | None:
    first = source.sample[0] if source.sample else None
    return from_epoch(first.get("created_at"), 0.001) if isinstance(first, dict) else None


def _provider(model: str) -> str | None:
    return "other" if "kimi" in model or "moonshot" in model else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
