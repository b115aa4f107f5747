"""Live delivery of session events over Socket.IO and server-sent events."""
