"""What tests of agents share."""

from agent_rooms import fakes as fakes
