"""Writes a conversation as one ATIF trajectory, with its subagents embedded."""

from typing import BinaryIO

import msgspec

from open_token.errors import InputError
from open_token.model.document import Integrity, Note, Participant, Record
from open_token.writers._atif_steps import Steps, count_tokens, extra_of
from open_token.writers._runs import Body, Losses, Run, first_word, runs_of, speakers

_VERSION = "ATIF-v1.8"
_CONTEXT = ("agent", "version", "model", "schema_version", "notes", "extra")
_TOTALS = ("prompt_tokens", "completion_tokens", "cached_tokens")


def write(record: Record, integrity: Integrity | None, out: BinaryIO) -> tuple[int, list[Note]]:
    """Write all of it; gives the count of bytes, and what ATIF has no place for."""
    losses = Losses("ATIF")
    made = _Trajectories(speakers(record), losses).of(runs_of(record, losses))
    if made is None:
        raise InputError(
            "nobody says anything in this conversation",
            help="ATIF has no trajectory without a step",
            code="input.no-talk",
        )
    whole: Body = {"schema_version": _VERSION, "session_id": record.conversation["id"], **made}
    whole["extra"] = whole.get("extra", {}) | {"open_token": _origin(record, integrity)}
    return out.write(
        msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    ), losses.notes


def _origin(record: Record, integrity: Integrity | None) -> Body:
    """What is known of the whole, and the hash of the document that the same export would be."""
    facts: Body = {
        name: record.conversation[name]
        for name in ("title", "redaction")
        if name in record.conversation
    }
    return facts | ({"events_hash": f"sha256:{integrity['events_hash']}"} if integrity else {})


class _Trajectories:
    def __init__(self, people: dict[str, Participant], losses: Losses) -> None:
        self._people = people
        self._losses = losses
        self._names: set[str] = set()

    def of(self, run: Run) -> Body | None:
        """The trajectory of a run; None when it has no step."""
        # The subagents come first: a reference to one that has no steps could not be resolved.
        inner = {
            id(part): child for part in run.inner if (child := self._subagent(part)) is not None
        }
        names = {part: child["trajectory_id"] for part, child in inner.items()}
        steps = Steps(run, self._people, names, self._losses).all()
        if not steps:
            return None
        made: Body = {"agent": self._agent(run), "steps": steps}
        if notes := first_word(run.context, "notes"):
            made["notes"] = notes
        made["final_metrics"] = _sums(run, steps, list(inner.values()))
        if isinstance(extra := run.context.get("extra"), dict):
            made["extra"] = extra
        if inner:
            made["subagent_trajectories"] = list(inner.values())
        return made

    def _subagent(self, run: Run) -> Body | None:
        own = first_word(run.about, "agent_id")
        name = next(
            name
            for name in (own, run.id, f"{run.id}#{len(self._names)}")
            if name and name not in self._names
        )
        self._names.add(name)
        made = self.of(run)
        if made is None:
            if not first_word(run.about, "file"):
                self._losses.lost("subagent", run.start, "a subagent without a step of its own")
            return None
        session = first_word(run.about, "session_id")
        return (
            {"schema_version": _VERSION, "trajectory_id": name}
            | ({"session_id": session} if session else {})
            | made
        )

    def _agent(self, run: Run) -> Body:
        actor = next((item.actor for item in run.answers if item.actor in self._people), "")
        speaker: Participant | Body = self._people.get(actor, {})
        name = first_word(run.about, "subagent_type", "name") or speaker.get("name") or "agent"
        made: Body = {
            "name": name,
            "version": first_word(run.context, "version", "cli_version") or "unknown",
        }
        if model := first_word(run.about, "model") or speaker.get("model"):
            made["model_name"] = model
        if run.tools:
            made["tool_definitions"] = [
                {"type": "function", "function": tool} for tool in run.tools
            ]
        if extra := extra_of(run.context, _CONTEXT, "agent_extra"):
            made["extra"] = extra
        return made


def _sums(run: Run, steps: list[Body], inner: list[Body]) -> Body:
    """What the run took: tokens without its subagents, each of which has sums of its own; money
    with them."""
    spent: Body = {}
    for answer in run.answers:
        count_tokens(spent, answer.usage)
    made = {f"total_{name}": spent[name] for name in _TOTALS if name in spent}
    costs = [run.cost, *(step.get("metrics", {}).get("cost_usd", 0) for step in steps)]
    costs += [part["final_metrics"].get("total_cost_usd", 0) for part in inner]
    if any(costs):
        made["total_cost_usd"] = sum(costs)
    made["total_steps"] = len(steps)
    return made | ({"extra": spent["extra"]} if "extra" in spent else {})
