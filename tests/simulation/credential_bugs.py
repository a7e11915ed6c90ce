"""Planted bugs of SCRAM credentials and delegation tokens; as `bugs.py`."""

from __future__ import annotations

from broker.security.token_credentials import TokenCredential, TokenCredentials
from controller.scram import ScramMechanism
from simulation.violation import Invariant
from tests.planting import Bug, Planter


def accepts_removed_tokens(plant: Planter) -> None:
    """A broker accepts a token that it has made a credential of, also after the token was removed."""
    of = TokenCredentials.of

    def remembered(self: TokenCredentials, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        known: dict[str, TokenCredential] = self.__dict__.setdefault("remembered", {})
        found = of(self, mechanism, token_id)
        if found is not None:
            known[token_id] = found
        return known.get(token_id)

    plant.setattr(TokenCredentials, "of", remembered)


def accepts_expired_tokens(plant: Planter) -> None:
    """A broker accepts a token until the controller has removed it, also after it has expired."""
    of = TokenCredentials.of

    def unexpired(self: TokenCredentials, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        found = of(self, mechanism, token_id)
        return None if found is None else found._replace(lifetime_ms=max(found.lifetime_ms, 0))

    plant.setattr(TokenCredentials, "of", unexpired)


def refuses_tokens_early(plant: Planter) -> None:
    """A broker refuses a token a second before it expires."""
    of = TokenCredentials.of

    def earlier(self: TokenCredentials, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        found = of(self, mechanism, token_id)
        return None if found is None else found._replace(lifetime_ms=found.lifetime_ms - 1_000)

    plant.setattr(TokenCredentials, "of", earlier)


BUGS = (
    Bug(accepts_removed_tokens, Invariant.REMOVED_CREDENTIALS_ARE_REFUSED, 1, 0),
    Bug(accepts_expired_tokens, Invariant.REMOVED_CREDENTIALS_ARE_REFUSED, 19, 0),
    Bug(refuses_tokens_early, Invariant.CREDENTIALS_STAY, 1, 0),
)
"""Every bug of credentials."""
