"""Sessions as a pure fold of their event log: state, branches, and the events sent to clients."""

from open_token.session.client_events import ClientEvent as ClientEvent
from open_token.session.client_events import SessionView as SessionView
from open_token.session.client_events import to_legacy_event as to_legacy_event
from open_token.session.client_events import to_stream_item as to_stream_item
from open_token.session.state import Annotation as Annotation
from open_token.session.state import ImportedEvent as ImportedEvent
from open_token.session.state import SessionState as SessionState
from open_token.session.state import fold_log as fold_log
from open_token.session.turn import Turn as Turn
