"""The quota of a client: the most specific entity that has one (KIP-55; Kafka: `DefaultQuotaCallback`).

Of a user's client, in this order; the first entity with a value for the kind of quota decides:

    (user, client id)    (user, any client id)    (user)
    (any user, client id)    (any user, any client id)    (any user)
    (client id)    (any client id)

All clients that an entity names together share its quota, so usage is counted by `Quota.shared_by`: of (user), it is
the user, whatever the client id; of (any user), each user has a count of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from controller.image import NO_QUOTAS, QuotaEntity, quota_entity

PRODUCE = "producer_byte_rate"
FETCH = "consumer_byte_rate"
REQUEST = "request_percentage"
CONTROLLER_MUTATION = "controller_mutation_rate"

USER, CLIENT_ID = "user", "client-id"

_MAX_CACHED = 10_000
_MAX_CACHED_CHARACTERS = 256
_MAX_COUNTED_CHARACTERS = 256


class Quota(NamedTuple):
    """The limit of a client, per second, and the user and client id that share it; one that does not matter is "".

    Longer names are cut, because clients choose them, and the usage of each is kept.
    """

    limit: float
    shared_by: tuple[str, str]


class ClientQuotas:
    """The quotas of one metadata image."""

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._quotas = quotas
        self._found: dict[tuple[str, str, str], Quota | None] = {}
        self.kinds = {kind for values in quotas.values() for kind in values}
        """The kinds of quotas that any entity has."""

    def of_client(self, kind: str, user: str, client_id: str) -> Quota | None:
        """Return the quota of a kind for a user's client; None if nothing limits it."""
        if kind not in self.kinds:
            return None
        asked = (kind, user, client_id)
        if asked in self._found:
            return self._found[asked]
        found = next(
            (
                Quota(self._quotas[entity][kind], _cut(shared_by))
                for entity, shared_by in _most_specific_first(user, client_id)
                if kind in self._quotas.get(entity, NO_QUOTAS)
            ),
            None,
        )
        if found is not None and math.isinf(found.limit):
            found = None
        # Clients choose their ids.
        if len(user) + len(client_id) <= _MAX_CACHED_CHARACTERS:
            if len(self._found) >= _MAX_CACHED:
                self._found.clear()
            self._found[asked] = found
        return found


def _cut(names: tuple[str, str]) -> tuple[str, str]:
    user, client_id = names
    return user[:_MAX_COUNTED_CHARACTERS], client_id[:_MAX_COUNTED_CHARACTERS]


def _most_specific_first(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    """Yield the entities that a client belongs to, each with the user and client id that share its quota."""
    for user_name in (user, None):
        yield quota_entity([(USER, user_name), (CLIENT_ID, client_id)]), (user, client_id)
        yield quota_entity([(USER, user_name), (CLIENT_ID, None)]), (user, client_id)
        yield quota_entity([(USER, user_name)]), (user, "")
    yield quota_entity([(CLIENT_ID, client_id)]), ("", client_id)
    yield quota_entity([(CLIENT_ID, None)]), ("", client_id)
