"""A plugin of pytest: the brokers of kafka-python's fixtures have SASL_SSL where a test asks for no other transport.

The fixtures know every transport; only the default is another one.
"""

from typing import Any

from test.integration.fixtures import KafkaFixture  # type: ignore[import-not-found]  # of kafka-python's tests

SECURED = {"transport": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
_instance = KafkaFixture.instance


def _secured(broker_id: int, *arguments: Any, **settings: Any) -> Any:
    return _instance(broker_id, *arguments, **(settings if "transport" in settings else SECURED | settings))


KafkaFixture.instance = _secured
