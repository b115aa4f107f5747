"""The store in PostgreSQL: a database that several nodes share."""
