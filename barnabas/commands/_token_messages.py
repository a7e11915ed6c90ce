"""The requests and responses of delegation tokens (KIP-48), as classes of kafka-python, which lacks them.

`_token_schemas/` has their definitions.
"""

from functools import cache
from typing import Any, NamedTuple


class Messages(NamedTuple):
    """The classes of one API. kafka-python finds the class of a response by the key of its API."""

    request: Any
    response: Any


@cache
def messages(api: str) -> Messages:
    """Return the classes of the API `Create`, `Renew`, `Expire` or `Describe` of delegation tokens."""
    from kafka.protocol.api_message import ApiMessage

    from barnabas.commands import _token_schemas

    kind: Any = type(ApiMessage)
    return Messages(
        *(
            kind(f"{api}DelegationToken{part}", (ApiMessage,), {"__module__": __name__}, load_json=_token_schemas)
            for part in ("Request", "Response")
        )
    )
