"""A recorded conversation as a provider: an agent runs again, offline, and gets the answers it got
then."""
