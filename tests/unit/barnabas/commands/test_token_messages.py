"""The messages of delegation tokens, which kafka-python encodes by our definitions, against the broker's own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from barnabas.commands._token_messages import messages
from protocol.api import APIS, ApiKey
from protocol.fields import fields_of

KEYS = {
    ApiKey.CREATE_DELEGATION_TOKEN: "Create",
    ApiKey.RENEW_DELEGATION_TOKEN: "Renew",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "Expire",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "Describe",
}


def example(kind: Any) -> Any:
    """Return a message of ours in which every field has a value."""
    values: dict[str, Any] = {}
    for number, field in enumerate(fields_of(kind), 1):
        if field.is_list and field.struct is not None:
            values[field.name] = [example(field.struct)]
        elif field.name == "hmac":
            values[field.name] = b"h"
        elif "principal" in field.name or field.name == "token_id":
            values[field.name] = f"text {number}"
        else:
            values[field.name] = number
    return kind(**values)


@pytest.mark.parametrize("suffix", ["Request", "Response"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_both_encode_the_same(key: ApiKey, suffix: str) -> None:
    module = import_module(f"protocol.messages.{key.name.lower()}")
    ours = getattr(module, f"{APIS[key].name}{suffix}")
    kind = getattr(messages(KEYS[key]), suffix.lower())
    for version in APIS[key].versions:
        message = example(ours)
        if version < 3:
            for part in (message, *getattr(message, "tokens", ())):
                for name in part._names:
                    if name.startswith(("owner_", "token_requester_")):
                        setattr(part, name, "")
        data = message.encode(version)
        decoded = kind.decode(data, version=version)
        decoded._header = None
        assert bytes(decoded.encode(version=version)) == data
