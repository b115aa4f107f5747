"""Who is asking: an API key, an access token, or a JSON Web Token of an identity provider."""

from open_token.server.core import access_tokens, web_tokens
from open_token.server.core.services import Services
from open_token.server.store.rows import Caller


async def identify(services: Services, credential: str) -> Caller | None:
    """Return the caller with a credential; None when it is invalid."""
    if credential.startswith(access_tokens.PREFIX):
        return await access_tokens.check_token(services, credential)
    if services.config.jwt_keys is not None and web_tokens.looks_like_one(credential):
        return await web_tokens.check(services, credential)
    return await services.store.check_key(credential, services.clock.now())
