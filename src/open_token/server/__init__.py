"""The session server: event-sourced sessions over REST, Socket.IO and server-sent events."""
