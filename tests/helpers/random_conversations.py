"""Random conversations in a few words, so that much is said twice: as documents, with calls,
subagents and tokens."""

from typing import Any

from hypothesis import strategies as st

PEOPLE = [
    {"actor_id": "u", "kind": "human", "name": "user"},
    {"actor_id": "s", "kind": "system", "name": "runtime"},
    {"actor_id": "m", "kind": "model", "name": "assistant", "model": "model-1"},
    {"actor_id": "n", "kind": "model", "name": "helper", "model": "model-2"},
    {"actor_id": "t", "kind": "tool", "name": "run"},
]
WORDS = st.sampled_from(["go on", "ok", "stop", '{"a": 1}', "[1]", " spaces  inside ", "é\n\n"])
USAGE = st.none() | st.dictionaries(
    st.sampled_from(
        [
            "input_tokens",
            "output_tokens",
            "reasoning_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
        ]
    ),
    st.integers(0, 5),
    min_size=1,
)
IMAGE = {
    "type": "image",
    "media_type": "image/png",
    "encoding": "base64",
    "bytes": 1,
    "base64": "AA==",
}
IMAGE["sha256"] = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
BLOCKS = st.lists(
    WORDS.map(lambda words: {"type": "text", "text": words}) | st.just(IMAGE),
    min_size=1,
    max_size=3,
)
STEPS = st.sampled_from(
    "ask system say say think call call result result missing spawn usage".split()
)


@st.composite
def conversations(draw: Any) -> dict[str, Any]:
    """A document that keeps the rules of the format."""
    made = _Making(draw)
    for step in draw(st.lists(STEPS, max_size=25)):
        getattr(made, step)()
    for call in list(made.open):
        made.answer(call, {"data": {"missing_result": True}})
    conversation = {"id": "random", "internal_availability": "available"}
    return {
        "open_token_version": "0.1",
        "conversation": conversation,
        "participants": PEOPLE,
        "events": made.events or [made.ask()],
    }


class _Making:
    def __init__(self, draw: Any) -> None:
        self.events: list[Any] = []
        self.open: dict[str, str] = {}
        """Calls without a result, with the span of each."""
        self._draw = draw
        self._calls = 0
        self._spans = [""]
        self._clock = 0

    def ask(self) -> Any:
        return self._add("message", "u", self._content(), "user")

    def system(self) -> None:
        self._add(
            "message", "s", self._content(), self._draw(st.sampled_from(["system", "developer"]))
        )

    def say(self) -> None:
        self._add("message", self._model(), self._content(), "assistant", usage=self._draw(USAGE))

    def think(self) -> None:
        self._add(
            "message",
            self._model(),
            {"text": self._draw(WORDS)},
            "assistant_thought",
            usage=self._draw(USAGE),
        )

    def call(self) -> None:
        self._calls += 1
        name, span = f"call_{self._calls:06d}", self._draw(st.sampled_from(self._spans))
        data = {
            "tool_name": self._draw(st.sampled_from(["run", "ask"])),
            "arguments": {"x": self._draw(WORDS)},
        }
        if native := self._draw(st.sampled_from(["", "same", f"own-{name}"])):
            data["native_call_id"] = native
        links = {"call_id": name, "span_id": span}
        self._add(
            "tool_use",
            self._model(),
            {"data": data},
            "assistant",
            links=links,
            usage=self._draw(USAGE),
        )
        self.open[name] = span

    def result(self) -> None:
        if self.open:
            self.answer(self._draw(st.sampled_from(sorted(self.open))), self._content())
            if self._draw(st.booleans()):
                self.failed()

    def missing(self) -> None:
        if self.open:
            self.answer(
                self._draw(st.sampled_from(sorted(self.open))), {"data": {"missing_result": True}}
            )

    def answer(self, call: str, content: Any) -> None:
        self._add(
            "tool_result",
            "t",
            content,
            "tool",
            links={"call_id": call, "span_id": self.open.pop(call)},
        )

    def failed(self) -> None:
        links = {"parent_id": self.events[-1]["id"]}
        self._add(
            "annotation", "t", {"data": {"kind": "result_facts", "is_error": True}}, links=links
        )

    def spawn(self) -> None:
        span = f"span_{len(self._spans):06d}"
        served = self._draw(st.sampled_from(["", *sorted(self.open)]))
        links = {"span_id": span} | ({"call_id": served} if served else {})
        self._add(
            "span_start",
            "n",
            {"data": {"kind": "subagent", "subagent_type": "helper"}},
            links=links,
        )
        self._spans.append(span)

    def usage(self) -> None:
        usage = self._draw(USAGE)
        self._add("annotation", "m", {"data": {"kind": "usage"}}, usage=usage)

    def _model(self) -> str:
        return str(self._draw(st.sampled_from(["m", "m", "n"])))

    def _content(self) -> dict[str, Any]:
        return self._draw(
            WORDS.map(lambda text: {"text": text}) | BLOCKS.map(lambda data: {"data": data})
        )

    def _add(
        self,
        kind: str,
        actor: str,
        content: Any,
        role: str = "",
        links: Any = None,
        usage: Any = None,
    ) -> Any:
        number = len(self.events) + 1
        made = {
            "id": f"evt_{number:06d}",
            "seq": number,
            "type": kind,
            "actor_id": actor,
            "visibility": "internal",
        }
        self._clock += self._draw(st.integers(-1, 3))
        if self._clock > 0 and self._draw(st.integers(0, 3)):
            made["ts"] = f"2026-03-01T10:{self._clock // 60:02d}:{self._clock % 60:02d}Z"
        made["content"] = {
            "mime": "text/plain" if "text" in content else "application/json",
            **content,
        }
        span = {} if links else {"span_id": self._draw(st.sampled_from(self._spans))}
        known = {name: value for name, value in (links or span).items() if value}
        made |= (
            ({"role": role} if role else {})
            | ({"links": known} if known else {})
            | ({"usage": usage} if usage else {})
        )
        self.events.append(made)
        return made
