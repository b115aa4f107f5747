"""REST routes, one router per resource, with their middleware, authentication and OpenAPI."""
