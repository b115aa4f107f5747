"""Logs of sessions that never were: what a person, an agent and its tools do is drawn, and each
step is valid."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from open_token.model.log_events import LogEntry
from open_token.model.session_types import ContentBlock
from open_token.session import SessionState, actions, branches

WORDS = ("", "a", "Hello ", "zwei\n", "三", '"quoted"', "\u2028", "word " * 5)
JSON = (
    None,
    True,
    0,
    "",
    "text",
    [],
    [1, None],
    {},
    {"a": [{"b": "c"}]},
    {"_meta": {}},
    [{"type": "text", "text": "t"}],
)
USAGE = {"input_tokens": 5, "output_tokens": 2}
BESIDE = (
    "tool_ui",
    "tool_bridge",
    "system_notification",
    "planning_enter",
    "planning_exit",
    "plan_status",
)


class Stopped(Exception):
    """The person pressed stop."""


class SessionLog:
    """One session, made step by step."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.state = SessionState("sess_1")
        self.entries: list[LogEntry] = []
        self.count = 0
        self.left = -1
        """How many entries until the person presses stop; below 0: never."""

    def add(self, kind: str, **data: Any) -> None:
        if self.left == 0:
            raise Stopped
        self.left -= 1
        self.put([(kind, data)])

    def put(self, made: list[Any]) -> None:
        for kind, data in made:
            self.count += 1
            at = f"2026-01-01T00:{self.count // 60 % 60:02d}:{self.count % 60:02d}Z"
            self.entries.append(self.state.add(kind, data, at))

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def begin(self) -> None:
        session = {"intent": "Test", "user_id": "user_1", "template_id": "kept though unknown"}
        self.add("session.created", session=session)

    def say(self, **turn: Any) -> None:
        message = self.one(*WORDS, [{"type": "image_url", "image_url": {"url": "u"}}])
        made = actions.build_text_blocks(message)
        self.put(
            actions.send_user_message(
                self.name("turn"), made, checkpoint_id=self.name("cp"), **turn
            )
        )

    def exchange(self) -> None:
        self.left = self.random.randint(-25, 25)
        self.say(client_message_id=self.name("msg"))
        try:
            self.add("run.started", run_id=self.name("run"))
            waits = self.loop("root", None, 0)
            self.add(
                "run.ended",
                run_id="run",
                output=None if waits else self.one(*JSON),
                schema=self.one(None, {}),
            )
        except Stopped:
            self.left = -1
            status = self.one("interrupted", "failed")
            self.put(
                actions.interrupt_run(self.state, status=status, reason=self.one(None, "tired"))
            )
        self.left = -1

    def loop(self, loop: str, call: str | None, depth: int) -> bool:
        """One agent at work; gives whether it waits for the person."""
        for _ in range(self.one(1, 2)):
            turn = self.name("turn")
            about: dict[str, Any] = {
                "turn_id": turn,
                "loop_id": loop,
                "model": "m",
                "context_window": 10,
            }
            self.add(
                "turn.opened", turn=about | ({"parent_fork_tool_call_id": call} if call else {})
            )
            if self.one(False, False, True):
                self.speak(turn)
                self.add("turn.retried", turn_id=turn, failure_reason="busy", code="server")
            calls = [made for _ in range(self.one(0, 2, 4)) if (made := self.speak(turn))]
            if True in [self.settle(turn, made, depth) for made in calls]:
                for kind, data in actions.stop_turn(turn, "paused"):
                    self.add(kind, **data)
                return True
            ended = {"usage": USAGE, "duration_ms": 7} if self.one(True, False) else {}
            self.add("turn.ended", turn_id=turn, **ended)
        return False

    def speak(self, turn: str) -> str | None:
        """One thing in a turn; gives the call, when it is one."""
        kind = self.one(
            "text.delta",
            "text.delta",
            "thinking.delta",
            "block",
            "call",
            "call",
            "usage",
            "memory",
            "mode",
        )
        if kind.endswith("delta"):
            self.add(kind, turn_id=turn, text=self.one(*WORDS))
        elif kind == "block":
            self.add(
                "block.added",
                turn_id=turn,
                block={"type": self.one(*BESIDE), "content": self.one(*JSON), "x": 1},
            )
        elif kind == "usage":
            self.add("usage.counted", turn_id=turn, usage=USAGE, context_window=self.one(None, 8))
        elif kind == "memory":
            self.add("memory.recalled", turn_id=turn, refs=[{"id": 1, "content_preview": "p"}])
        elif kind == "mode":
            self.add(
                "mode.changed", turn_id=self.one("", turn), to=self.one("planning", "executing")
            )
        else:
            name = self.name("tc")
            self.add(
                "tool.called",
                turn_id=turn,
                call={"id": name, "tool_name": "Bash", "arguments": self.one("", "{")},
            )
            for _ in range(self.one(0, 2)):
                self.add("tool.arguments", turn_id=turn, tool_call_id=name, delta=self.one(*WORDS))
            return name
        return None

    def settle(self, turn: str, call: str, depth: int) -> bool:
        """How a call ends."""
        how = self.one("result", "result", "status", "ask", "agent" if depth < 2 else "result")
        if how == "ask":
            self.put(
                actions.ask_question(
                    self.state, turn, call, [{"question": "Which?", "options": [{"label": "A"}]}]
                )
            )
            return True
        if how == "status":
            self.add(
                "tool.status",
                turn_id=turn,
                tool_call_id=call,
                status=self.one("cancelled", "error", "pending"),
            )
            return False
        if how == "agent" and self.loop(self.name("loop"), call, depth + 1):
            return True
        more = {"duration_ms": 3} if self.one(True, False) else {}
        status = self.one("done", "error")
        self.add(
            "tool.result",
            turn_id=turn,
            tool_call_id=call,
            result=self.one(*JSON),
            status=status,
            **more,
        )
        return False

    def answer(self) -> None:
        name, question = next(iter(self.state.questions.items()))
        if self.one(True, False):
            self.put(actions.withdraw_question(self.state, name))
            return
        given = actions.normalize_answer(question, {"selections": {"0": [0]}})
        block = ContentBlock(type="ask_user_answer", content=given, tool_call_id=name)
        self.put(actions.send_user_message(self.name("turn"), [block]))
        self.put(actions.answer_question(self.state, name, given))
        self.add(
            "tool.result", turn_id=question.turn_id, tool_call_id=name, result=given["answers"]
        )

    def move(self) -> None:
        marks = list(self.state.checkpoints)
        how = self.one("rewind", "switch", "whatif")
        if how == "whatif" or not marks:
            some = [name for name in self.state.nodes if self.one(True, False, False, False)]
            self.put([branches.start_whatif(self.state, self.one(0, 1, 2, 9), ["q"], some)])
        else:
            goes = branches.rewind if how == "rewind" else branches.switch_branch
            self.put([goes(self.state, self.one(*marks))])

    def compact(self) -> None:
        turn = self.name("turn")
        self.add("turn.opened", turn={"turn_id": turn, "kind": "compaction", "role": "system"})
        self.add(
            "compacted",
            turn_id=turn,
            summary_full="short",
            tokens_before=9,
            saved_ratio=0.5,
            trigger="auto",
        )
        self.add("turn.ended", turn_id=turn)

    def beside(self) -> None:
        replay = {"source_session_id": "sess_0", "speed": 2}
        kind, data = self.one(
            ("session.changed", {"changes": {"intent": "Renamed", "is_pinned": True, "odd": 1}}),
            ("message.queued", {"message_id": "m", "message": {"message": "later"}}),
            ("error.raised", {"message": "quota", "code": "E1"}),
            ("notice.given", {"message": "soon", "info": {"level": "low"}}),
            ("signal.sent", {"event": "workspace:files_changed", "payload": {"paths": ["a"]}}),
            ("replay.changed", {"replay_state": replay}),
        )
        self.add(kind, **data)


@st.composite
def session_logs(draw: Any) -> SessionLog:
    """A session with a few exchanges, and what happens between them."""
    conversation = SessionLog(draw(st.integers(0, 2**32)))
    conversation.begin()
    for _ in range(conversation.random.randint(2, 9)):
        does = conversation.one(
            conversation.exchange,
            conversation.exchange,
            conversation.move,
            conversation.compact,
            conversation.beside,
        )
        if conversation.state.questions and conversation.one(True, False):
            does = conversation.answer
        does()
    return conversation
