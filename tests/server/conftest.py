"""What tests of the server share."""

from agent_rooms import fakes as fakes
