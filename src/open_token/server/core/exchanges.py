"""Exchanges in the log: how a message starts a run, and how a run ends and the next one starts."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from open_token.model.agent_settings import dump_settings, parse_settings
from open_token.model.log_events import Json, NewEvent
from open_token.model.session_types import ContentBlock
from open_token.model.titles import make_title
from open_token.server.agent import approvals
from open_token.server.agent.models import build_registry
from open_token.server.agent.run_context import RunRequest
from open_token.server.core.chat_request import (
    Answer,
    ChatRequest,
    ToolResult,
    parse_queued_message,
    validate_answer,
)
from open_token.server.core.journal import AppendResult, StepBuilder
from open_token.server.core.services import Services
from open_token.server.errors import conflict
from open_token.server.store.rows import Fence, NewRun, RunEnd
from open_token.session import SessionState, Turn, actions, branches

_MAX_RETRIES = 20


class _QueueChanged(Exception):
    """The queue changed while the next exchange was prepared."""


class NewExchange:
    """An exchange about to start, with the ids that it will have."""

    def __init__(
        self,
        services: Services,
        request: ChatRequest,
        order: RunRequest,
        message_id: str | None = None,
    ) -> None:
        clock = services.clock
        self.request = request
        self.order = order
        self.message_id = message_id
        """The id of the queued message that becomes this exchange, if it was queued."""
        self.turn_id = clock.name("turn")
        self.run_id = clock.name("run")
        self.checkpoint_id = clock.name("cp")
        self.run = NewRun(id=self.run_id, body=msgspec.json.encode(order), at=clock.now())

    def steps(self, state: SessionState) -> Iterator[NewEvent]:
        """Yield the entries: the branch, the run, the user's turn, and the answered question."""
        request = self.request
        if request.whatif is not None:
            whatif = request.whatif
            yield branches.start_whatif(
                state, whatif.from_step, whatif.quotes, whatif.deprecate_entry_ids
            )
        answers = self._match_questions(state)
        if not answers:
            yield from _withdraw_questions(state)
        yield "run.started", {"run_id": self.run_id, "info": self._run_info()}
        yield build_status_change(state)
        yield from self._user_turn(state, answers)
        for call_id, answer in answers.items():
            yield from _answer_question(state, call_id, answer)
        if not state.session.intent:
            title = make_title(request.text)
            if title:
                yield "session.changed", {"changes": {"intent": title}}

    def _run_info(self) -> Json:
        order = self.order
        info: Json = {"model": order.model, "mode": order.mode, "headless": order.headless}
        if self.request.replay_decision is not None:
            info["replay_decision"] = self.request.replay_decision
        settings = dump_settings(self.request.settings)
        if settings:
            info["settings"] = settings
        return info

    def _user_turn(self, state: SessionState, answers: dict[str, Json]) -> list[NewEvent]:
        request = self.request
        blocks = []
        for call_id, answer in answers.items():
            blocks.append(_build_answer_block(state, call_id, answer))
        # Plain text that was taken as the answer is not repeated as a message.
        is_text_answer = request.askuser_answer is None and not request.tool_results
        is_answer_only = bool(answers) and (is_text_answer or not request.message)
        if not is_answer_only:
            blocks += actions.build_text_blocks(request.message)
        fields: Json = {}
        if request.whatif and request.whatif.quotes:
            fields["quotes"] = request.whatif.quotes
        if request.app_context is not None:
            fields["app_context"] = request.app_context
        if request.client_message_id:
            fields["client_message_id"] = request.client_message_id
        return actions.send_user_message(
            self.turn_id, blocks, checkpoint_id=self.checkpoint_id, **fields
        )

    def _match_questions(self, state: SessionState) -> dict[str, Json]:
        """Return the answers by the tool calls that wait for them.

        Plain text sent while a single question is open is an answer to it."""
        open_calls = find_open_questions(state)
        answer = self.request.askuser_answer
        if self.request.tool_results:
            return _match_results(state, self.request.tool_results, open_calls)
        if answer is not None:
            call_id = _find_answered_call(answer, open_calls)
        elif self._may_answer_with_text(state, open_calls):
            call_id = open_calls[0]
            answer = Answer(custom={"0": self.request.text})
        else:
            return {}
        question = state.questions[call_id]
        if question.kind == "client_tool":
            raise conflict("this call waits for tool_results, not for an answer", "no_question")
        normalized = actions.normalize_answer(question, validate_answer(answer, question.questions))
        if question.kind == "approval":
            normalized = approvals.decide(normalized)
        return {call_id: normalized}

    def _may_answer_with_text(self, state: SessionState, open_calls: list[str]) -> bool:
        if self.message_id or self.request.whatif:
            return False
        if len(open_calls) != 1 or not isinstance(self.request.message, str):
            return False
        return len(state.questions[open_calls[0]].questions) == 1


def _match_results(
    state: SessionState, results: list[ToolResult], open_calls: list[str]
) -> dict[str, Json]:
    """Return the results of the client by the calls that wait for them."""
    matched: dict[str, Json] = {}
    for result in results:
        call_id = result.tool_call_id
        is_waiting = call_id in open_calls and state.questions[call_id].kind == "client_tool"
        if not is_waiting or call_id in matched:
            raise conflict("tool_results: no call of a client tool waits with this id", "no_call")
        status = "error" if result.is_error else "done"
        matched[call_id] = {"tool_call_id": call_id, "result": result.result, "status": status}
    return matched


def _build_answer_block(state: SessionState, call_id: str, answer: Json) -> ContentBlock:
    """Return the block that shows in the user's turn what was answered to a call."""
    if state.questions[call_id].kind != "client_tool":
        return ContentBlock(type="ask_user_answer", content=answer, tool_call_id=call_id)
    call = state.turns[state.callers[call_id]].get_call(call_id).call
    return ContentBlock(
        type="tool_result",
        content=answer,
        tool_call_id=call_id,
        tool_name=call.tool_name,
        display_name=call.display_name,
    )


def build_status_change(state: SessionState) -> NewEvent:
    """Return the event that sends clients the status of the session, as a whole session."""
    return "session.changed", {"changes": {"status": state.session.status}}


def find_open_questions(state: SessionState) -> list[str]:
    """Return the tool calls of the current branch that wait for the user."""
    if not state.questions:
        return []
    current = {turn.facts.turn_id for turn in state.path}
    return [call_id for call_id, question in state.questions.items() if question.turn_id in current]


def build_interruption(
    state: SessionState, *, status: str = "interrupted", reason: str | None = None
) -> list[NewEvent]:
    """Return the steps that end all work in progress.

    This includes turns that asked a question, were answered and have not continued yet."""
    interruption: list[NewEvent] = []
    for turn in reversed(state.path):
        if turn.facts.status == "paused" and not _is_awaiting_answer(turn):
            interruption += _cancel_pending_calls(turn)
            interruption += actions.stop_turn(turn.facts.turn_id, status, reason)
    return interruption + actions.interrupt_run(state, status=status, reason=reason)


def _withdraw_questions(state: SessionState) -> Iterator[NewEvent]:
    """Close open questions unanswered, and cancel the calls behind them in their turns."""
    open_calls = find_open_questions(state)
    if not open_calls:
        return
    # Collected first: the path must not change while it is walked.
    cancelled: list[NewEvent] = []
    for turn in state.path:
        if turn.facts.status == "paused":
            cancelled += _cancel_pending_calls(turn)
    yield from cancelled
    for call_id in open_calls:
        yield from actions.withdraw_question(state, call_id)


def _is_awaiting_answer(turn: Turn) -> bool:
    return any(calling.call.status == "awaiting_answer" for calling in turn.calls.values())


def _cancel_pending_calls(turn: Turn) -> list[NewEvent]:
    events: list[NewEvent] = []
    for call_id, calling in turn.calls.items():
        if calling.call.status != "pending":
            continue
        change = {
            "turn_id": turn.facts.turn_id,
            "status": "cancelled",
            "tool_call_id": call_id,
        }
        events.append(("tool.status", change))
    return events


def _find_answered_call(answer: Answer, open_calls: list[str]) -> str:
    call_id = answer.tool_call_id or answer.prompt_id
    if call_id is None and len(open_calls) == 1:
        return open_calls[0]
    if call_id not in open_calls:
        raise conflict("no open question has this id", "no_question")
    return call_id


def _answer_question(state: SessionState, call_id: str, answer: Json) -> Iterator[NewEvent]:
    """Yield the answer, and the result of the call; an approved call has its result later."""
    question = state.questions[call_id]
    yield from actions.answer_question(state, call_id, answer)
    result: Json = {"turn_id": question.turn_id, "tool_call_id": call_id}
    if question.kind == "client_tool":
        yield "tool.result", result | {"result": answer["result"], "status": answer["status"]}
    elif question.kind == "approval":
        if answer["decision"] == "deny":
            denial = approvals.build_denial(answer)
            yield "tool.result", result | {"result": denial, "status": "error"}
    else:
        questions = [item.get("question") for item in question.questions]
        answers = [
            {"question": text, "answer": given}
            for text, given in zip(questions, answer["answers"], strict=True)
        ]
        yield "tool.result", result | {"result": {"answers": answers}}


async def load_next_exchange(services: Services, state: SessionState) -> NewExchange | None:
    """Return the exchange of the oldest queued message; None when the queue is empty."""
    for message_id, message in state.queue.items():
        request = parse_queued_message(message)
        setting = await services.store.setting(queued_env_key(state.session_id, message_id))
        env = msgspec.json.decode(setting, type=dict[str, str]) if setting else None
        default = build_registry(services.config, services.env).default
        order = build_order(request, state, env, default)
        request = msgspec.structs.replace(request, runtime_env=env)
        return NewExchange(services, request, order, message_id)
    return None


def queued_env_key(session_id: str, message_id: str) -> str:
    """Return the setting that holds the environment of a queued message.

    It may contain secrets and therefore stays out of the log."""
    return f"env/{session_id}/{message_id}"


def build_order(
    request: ChatRequest, state: SessionState, env: dict[str, str] | None = None, default: str = ""
) -> RunRequest:
    """Build the order of a run; the model is the message's, the session's or the server's."""
    settings = parse_settings(state.agent.settings | dump_settings(request.settings))
    return RunRequest(
        model=request.model or request.settings.model or state.session.model or default,
        mode=request.mode or state.mode,
        headless=request.headless,
        output_schema=request.output_schema,
        runtime_env=env or request.runtime_env or {},
        settings=settings,
    )


async def end_run(
    services: Services,
    owner: str,
    session_id: str,
    make: StepBuilder,
    *,
    fence: Fence | None,
    how: RunEnd | None,
) -> AppendResult:
    """End a run and start the exchange that is queued behind it, in one transaction."""
    # One transaction, so that a crash cannot leave a queued message behind a run that has ended:
    # nothing would ever start it. The queue is read before, and may change until the write.
    for _ in range(_MAX_RETRIES):
        state = await services.journal.state(owner, session_id)
        exchange = await load_next_exchange(services, state)
        build = _with_next_exchange(make, exchange)
        transaction: dict[str, Any] = {
            "fence": fence,
            "run_end": how,
            "run": exchange.run if exchange else None,
        }
        if state.run is not None:
            outbox = await services.webhooks.build_outbox(state, owner)
            transaction["settings"] = outbox
        try:
            written = await services.journal.write(owner, session_id, build, **transaction)
        except _QueueChanged:
            continue
        services.webhooks.wake()
        if exchange is not None:
            # The run has a copy. It is deleted only now, since a write that fails is retried.
            env_key = queued_env_key(session_id, exchange.message_id or "")
            await services.store.set_setting(env_key, None)
            services.runner.wake()
        return written
    raise conflict(f"write conflict: gave up after {_MAX_RETRIES} retries")


def _with_next_exchange(make: StepBuilder, exchange: NewExchange | None) -> StepBuilder:
    def build(state: SessionState) -> Iterable[NewEvent]:
        yield from make(state)
        yield build_status_change(state)
        next_message_id = exchange.message_id if exchange else None
        if next(iter(state.queue), None) != next_message_id:
            raise _QueueChanged
        if exchange is not None:
            yield "message.taken", {"message_id": exchange.message_id}
            yield from exchange.steps(state)

    return build
