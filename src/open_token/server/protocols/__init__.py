"""Other protocols over the same log: OpenAI Responses, AG-UI, and the Agent Client Protocol."""
