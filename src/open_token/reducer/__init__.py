"""The one fold of a session's log: entries become turns, a tree, a status, and what clients are
told of them."""

from open_token.reducer._facts import Aside as Aside
from open_token.reducer._facts import Kept as Kept
from open_token.reducer._state import State as State
from open_token.reducer._state import fold as fold
from open_token.reducer._turn import Turn as Turn
from open_token.reducer._wire import Told as Told
from open_token.reducer._wire import View as View
from open_token.reducer._wire import legacy as legacy
from open_token.reducer._wire import raw as raw
