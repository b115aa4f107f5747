"""What tests of agents share."""

from helpers.server.agent_session import fakes as fakes
