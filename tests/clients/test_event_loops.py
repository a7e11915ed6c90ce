"""The broker on asyncio's own event loop, the fallback without uvloop."""

from collections.abc import Iterator

import pytest

from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.clients.clients import CLIENTS, Client
from tests.clients.exchange import content, printed, sample


@pytest.fixture(scope="module")
def asyncio_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BARNABAS_LOOP", "asyncio")
        with BrokerProcess(tmp_path_factory.mktemp("asyncio"), QUICK_GROUPS) as running:
            yield running
            assert running.stop() == 0
    running.check_log()


# Topics are auto-created by the first request here; only kafka-go does not wait for that.
@pytest.mark.parametrize("client", [client for client in CLIENTS if client.name != "kafka-go"], ids=str)
def test_client_reads_back_what_it_produced(client: Client, asyncio_broker: BrokerProcess, topic: str) -> None:
    sent = sample(topic)
    command, stdin = client.produce(asyncio_broker.bootstrap, topic, "snappy", sent)
    printed(client, command, stdin)
    seen = printed(client, client.consume(asyncio_broker.bootstrap, topic, len(sent)))
    assert content(seen) == content(sent)
