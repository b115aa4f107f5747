"""Types of Open-Token documents, sessions and their logs."""
