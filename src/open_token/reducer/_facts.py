"""What a log comes to: the session, its tree of turns, the current branch, and what waits for an
answer."""

from dataclasses import dataclass, field

from open_token.entries import Imported, Json, LogFault, OnTurn, QuestionAsked, RunStarted
from open_token.reducer._turn import Turn
from open_token.turns import Session


@dataclass(frozen=True, slots=True)
class Kept:
    """An event of the document that the session began with, and the node with which it stays or
    goes."""

    anchor: str | None
    event: Json


@dataclass(frozen=True, slots=True)
class Aside:
    """Something between the turns that belongs into the record, and the node behind which it
    happened."""

    anchor: str | None
    turns: int
    """How many turns there were by then."""
    at: str
    data: Json


@dataclass(frozen=True, slots=True)
class Mark:
    """A checkpoint: the node before it (None: the beginning), and the turn that came behind it."""

    checkpoint_id: str
    turn_id: str | None
    before: str | None
    label: str | None
    created_at: str


@dataclass
class Facts:
    """All that a log says, as far as it has been folded."""

    session_id: str
    seq: int = 0
    """The last entry; it is the stream sequence of the session."""
    session: Session = field(init=False)
    mode: str = "executing"
    run: RunStarted | None = None
    """The run that is under way."""
    queue: dict[str, Json] = field(default_factory=dict)
    """What the person wrote meanwhile, by message id, oldest first."""
    sent: dict[str, str] = field(default_factory=dict)
    """The turn that a client's own message id became: a message that is sent twice is one
    message."""
    turns: dict[str, Turn] = field(default_factory=dict)
    """Every turn of the tree by turn id, in the order in which they began."""
    nodes: dict[str, Turn] = field(default_factory=dict)
    """The same by entry id."""
    path: list[Turn] = field(default_factory=list)
    """The current branch."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """The checkpoints by id, oldest first."""
    callers: dict[str, str] = field(default_factory=dict)
    """The turn that made a call, by the id of the call."""
    questions: dict[str, QuestionAsked] = field(default_factory=dict)
    """The questions nobody has answered, by the id of the call that waits."""
    deprecated: tuple[str, ...] = ()
    """For the branch that is about to begin: what it leaves out of what the model sees."""
    asides: list[Aside] = field(default_factory=list)
    document: Imported | None = None
    kept: list[Kept] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = Session(id=self.session_id)

    @property
    def head(self) -> str | None:
        """The entry id of the last turn of the current branch."""
        return self.path[-1].facts.id if self.path else None

    def turn_of(self, shape: OnTurn) -> Turn:
        """The turn that an entry is about."""
        turn = self.turns.get(shape.turn_id)
        if turn is None:
            raise LogFault("an entry about a turn that is not in the log")
        return turn

    def patched(self, turn: Turn, shape: OnTurn) -> None:
        """One more patch of a turn: the entry says which."""
        shape.patch = turn.patches = shape.patch or turn.patches + 1
        shape.loop_id = turn.facts.loop_id

    def way_to(self, head: str | None) -> list[Turn]:
        """The turns from the beginning to a node."""
        way: list[Turn] = []
        while head is not None:
            turn = self.nodes.get(head)
            if turn is None:
                raise LogFault("a node that is not in the log")
            way.append(turn)
            head = turn.parent_id
        return way[::-1]
