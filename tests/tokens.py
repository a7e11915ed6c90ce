"""Access tokens for tests, and the identity provider's keys that verify them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

ISSUER = "https://idp.example.com"
AUDIENCE = "kafka"


class IdentityProvider:
    """An identity provider with one key."""

    def __init__(self, key_id: str = "first") -> None:
        self.key = ECKey.generate_key("P-256", {"kid": key_id, "use": "sig"})

    @property
    def jwks(self) -> str:
        """The public keys, as their endpoint has them."""
        return json.dumps(KeySet([self.key]).as_dict(private=False))

    def write(self, path: Path) -> str:
        """Write the public keys to a file, and return its URL."""
        path.write_text(self.jwks)
        return path.as_uri()

    def token(self, *, now_s: float | None = None, **claims: Any) -> str:
        """Return a token of alice that expires after an hour; a claim of None is left out."""
        now = int(time.time() if now_s is None else now_s)
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 3600, "scope": "read write"}
        found = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, found, self.key)
