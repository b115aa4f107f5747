"""Routes, one router a resource, thin: they check what was sent, call the services, and answer."""
