"""How an exchange begins and ends in the log: a message and its run, an answer and the loop that
waited for it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import ROOT_LOOP, ContentBlock
from open_token.server.agent.models import build_registry
from open_token.server.agent.run_context import RunRequest
from open_token.server.agent.titles import build_title
from open_token.server.journal import Written
from open_token.server.refusals import busy
from open_token.server.sent import Answer, Sent, checked_answer, sent_of
from open_token.server.services import Services
from open_token.server.store.rows import Fence, NewRun, RunEnd
from open_token.session import SessionState, Turn, actions, branches

_TRIES = 20


class _Changed(Exception):
    """The queue is not as it was when the next exchange was prepared."""


class Beginning:
    """An exchange about to begin, with the names that it will have."""

    def __init__(
        self, services: Services, sent: Sent, order: RunRequest, message_id: str | None = None
    ) -> None:
        clock = services.clock
        self.sent, self.order, self.message_id = sent, order, message_id
        self.turn_id, self.run_id, self.checkpoint_id = (
            clock.name("turn"),
            clock.name("run"),
            clock.name("cp"),
        )
        self.run = NewRun(id=self.run_id, body=msgspec.json.encode(order), at=clock.now())

    def steps(self, state: SessionState) -> Iterator[NewEvent]:
        """The entries: chat:start, the person's turn, and what their words do to a question that
        waits."""
        sent = self.sent
        if sent.whatif is not None:
            given = sent.whatif
            yield branches.start_whatif(
                state, given.from_step, given.quotes, given.deprecate_entry_ids
            )
        call, answer = self._answer(state)
        if call is None:
            yield from _withdrawn(state)
        yield "run.started", {"run_id": self.run_id, "info": self._info()}
        yield from self._turn(call, answer)
        if call is not None:
            yield from _answered(state, call, answer)
        if not state.session.intent and (title := build_title(sent.text)):
            yield "session.changed", {"changes": {"intent": title}}

    def _info(self) -> Json:
        order, more = self.order, self.sent.more
        info: Json = {"model": order.model, "mode": order.mode, "headless": order.headless}
        if self.sent.replay_decision is not None:
            info["replay_decision"] = self.sent.replay_decision
        return {**info, **({"more": more} if more else {})}

    def _turn(self, call: str | None, answer: Json) -> list[NewEvent]:
        sent = self.sent
        blocks = (
            [ContentBlock(type="ask_user_answer", content=answer, tool_call_id=call)]
            if call
            else []
        )
        is_all_answer = call is not None and (sent.askuser_answer is None or not sent.message)
        if not is_all_answer:
            blocks += actions.build_text_blocks(sent.message)
        more: Json = {"quotes": sent.whatif.quotes} if sent.whatif and sent.whatif.quotes else {}
        more |= {"client_message_id": sent.client_message_id} if sent.client_message_id else {}
        return actions.send_user_message(
            self.turn_id, blocks, checkpoint_id=self.checkpoint_id, **more
        )

    def _answer(self, state: SessionState) -> tuple[str | None, Json]:
        """The question that is answered, and the answer; words for a single question are an answer
        to it."""
        waiting = open_questions(state)
        given = self.sent.askuser_answer
        if given is None:
            if (
                self.message_id
                or len(waiting) != 1
                or not isinstance(self.sent.message, str)
                or self.sent.whatif
            ):
                return None, {}
            name = waiting[0]
            if len(state.questions[name].questions) != 1:
                return None, {}
            given = Answer(custom={"0": self.sent.message})
        else:
            name = _asked(given, waiting)
        question = state.questions[name]
        return name, actions.normalize_answer(question, checked_answer(given, question.questions))


def open_questions(state: SessionState) -> list[str]:
    """The calls of the current branch that wait for the person."""
    active = {turn.facts.turn_id for turn in state.path} if state.questions else set()
    return [name for name, question in state.questions.items() if question.turn_id in active]


def broken_off(
    state: SessionState, *, status: str = "interrupted", reason: str | None = None
) -> list[NewEvent]:
    """The end of whatever is under way, also of turns that asked, were answered, and had not gone
    on yet."""
    made: list[NewEvent] = []
    for turn in reversed(state.path):
        if turn.facts.status == "paused" and not _awaits(turn):
            made += [*_cancelled(turn), *actions.stop_turn(turn.facts.turn_id, status, reason)]
    return made + actions.interrupt_run(state, status=status, reason=reason)


def _withdrawn(state: SessionState) -> Iterator[NewEvent]:
    """Nobody answers any more; what was to come behind the question in its turn does not come
    either."""
    waiting = open_questions(state)
    if waiting:
        yield from [
            step
            for turn in state.path
            if turn.facts.status == "paused"
            for step in _cancelled(turn)
        ]
    for name in waiting:
        yield from actions.withdraw_question(state, name)


def _awaits(turn: Turn) -> bool:
    return any(calling.call.status == "awaiting_answer" for calling in turn.calls.values())


def _cancelled(turn: Turn) -> list[NewEvent]:
    waits = [name for name, calling in turn.calls.items() if calling.call.status == "pending"]
    place = {"turn_id": turn.facts.turn_id, "status": "cancelled"}
    return [("tool.status", {**place, "tool_call_id": name}) for name in waits]


def _asked(given: Answer, waiting: list[str]) -> str:
    name = given.tool_call_id or given.prompt_id
    if name is None and len(waiting) == 1:
        return waiting[0]
    if name not in waiting:
        raise busy("no question of this id waits for an answer", "no_question")
    return name


def _answered(state: SessionState, call: str, answer: Json) -> Iterator[NewEvent]:
    question = state.questions[call]
    yield from actions.answer_question(state, call, answer)
    asked = [item.get("question") for item in question.questions]
    answers = [
        {"question": words, "answer": said}
        for words, said in zip(asked, answer["answers"], strict=True)
    ]
    yield (
        "tool.result",
        {"turn_id": question.turn_id, "tool_call_id": call, "result": {"answers": answers}},
    )


async def next_beginning(services: Services, state: SessionState) -> Beginning | None:
    """The exchange that the oldest queued message becomes; None when nothing waits."""
    for message_id, message in state.queue.items():
        sent = sent_of(message)
        kept = await services.store.setting(queued_env(state.session_id, message_id))
        env = msgspec.json.decode(kept, type=dict[str, str]) if kept else None
        default = build_registry(services.config, services.env).default
        order = order_of(sent, state, env, default)
        return Beginning(
            services, msgspec.structs.replace(sent, runtime_env=env), order, message_id
        )
    return None


def queued_env(session_id: str, message_id: str) -> str:
    """The setting that keeps the environment of a queued message: it is not for the log."""
    return f"env/{session_id}/{message_id}"


def order_of(
    sent: Sent, state: SessionState, env: dict[str, str] | None = None, default: str = ""
) -> RunRequest:
    """What a run is to do; the model is the message's, the session's, or the server's."""
    return RunRequest(
        model=sent.model or state.session.model or default,
        mode=sent.mode or state.mode,
        headless=sent.headless,
        output_schema=sent.output_schema,
        runtime_env=env or sent.runtime_env or {},
    )


async def end_run(
    services: Services,
    owner: str,
    session_id: str,
    make: Callable[[SessionState], Iterable[NewEvent]],
    *,
    fence: Fence | None,
    how: RunEnd | None,
) -> Written:
    """End a run and begin the exchange that waits behind it, in one transaction."""
    for _ in range(_TRIES):
        begins = await next_beginning(services, await services.journal.state(owner, session_id))

        def ending(state: SessionState, begins: Beginning | None = begins) -> Iterator[NewEvent]:
            yield from make(state)
            if next(iter(state.queue), None) != (begins.message_id if begins else None):
                raise _Changed
            if begins is not None:
                yield "message.taken", {"message_id": begins.message_id}
                yield from begins.steps(state)

        more: dict[str, Any] = {
            "fence": fence,
            "run_end": how,
            "run": begins.run if begins else None,
        }
        try:
            written = await services.journal.write(owner, session_id, ending, **more)
        except _Changed:
            continue
        if begins is not None:
            await services.store.set_setting(queued_env(session_id, begins.message_id or ""), None)
            services.runner.wake()
        return written
    raise busy("others write to this session all the time")


def last_turn_of(state: SessionState, role: str = "user") -> str | None:
    """The last turn of the root loop that somebody has."""
    turns = (turn.facts for turn in reversed(state.path))
    return next(
        (turn.turn_id for turn in turns if turn.role == role and turn.loop_id == ROOT_LOOP), None
    )
