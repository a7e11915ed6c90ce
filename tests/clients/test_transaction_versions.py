"""transaction.version 0, 1 and 2 by UpdateFeatures, up and down, while transactions of both kinds of clients are open.

Apache Kafka's producer uses version 2 where it is finalized: an epoch for each transaction, and partitions that Produce
adds (KIP-890). librdkafka always uses version 1. Each change of the level falls into an open transaction of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.update_features import UpdateFeaturesRequest
from tests.broker_process import BrokerProcess
from tests.chaos.cluster import wait_until
from tests.clients.clients import CLIENTS
from tests.clients.steps import Steps
from tests.clients.transactions import ConfluentProducer, read, values
from tests.raw_client import RawClient

FEATURE = "transaction.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", {"transaction.state.log.num.partitions": 3}) as broker:
        yield broker
    broker.check_log()


def set_level(bootstrap: str, level: int) -> None:
    """Finalize a level; return once the broker lists it."""
    with closing(RawClient(bootstrap)) as client:
        before = finalized(client)
        update = UpdateFeaturesRequest.Update(
            feature=FEATURE, max_version_level=level, upgrade_type=UPGRADE if level > before else SAFE_DOWNGRADE
        )
        answer = client.call(ApiKey.UPDATE_FEATURES, 2, timeout_ms=30_000, feature_updates=[update])
        assert answer.error_code == ErrorCode.NONE, answer
        wait_until(lambda: finalized(client) == level, f"{FEATURE} {level}")


def finalized(client: RawClient) -> int:
    answer = client.call(ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1")
    return next((one.max_version_level for one in answer.finalized_features if one.name == FEATURE), 0)


def test_clients_of_both_kinds_go_on_while_the_level_goes_down_and_up(quiet: BrokerProcess, tmp_path: Path) -> None:
    bootstrap = quiet.bootstrap
    [java] = [client for client in CLIENTS if client.name == "java"]
    expected: list[str] = []
    old = ConfluentProducer(bootstrap, "librdkafka")
    with Steps(java, bootstrap, "java", "given", tmp_path / "java.log") as new:
        new.run("init")
        for number, level in enumerate((1, 0, 2)):
            for ends in ("commit", "abort"):
                old.begin()
                new.run("begin")
                old.send("t", 0, [f"old {number} {ends}"])
                new.run("send", "t", 0, f"new {number} {ends}")
                if ends == "commit":
                    set_level(bootstrap, level)
                new.run(ends)
                old.commit() if ends == "commit" else old.abort()
            # As the clients of a restarted application do, with the level of now.
            with Steps(java, bootstrap, f"java {number}", "given", tmp_path / f"java{number}.log") as fresh:
                fresh.run("init")
                fresh.run("begin")
                fresh.run("send", "t", 0, f"fresh {number}")
                fresh.run("commit")
            expected += [f"old {number} commit", f"new {number} commit", f"fresh {number}"]
    wait_until(lambda: values(read(bootstrap, "t")) == expected, lambda: str(values(read(bootstrap, "t"))))
    quiet.kill()
    quiet.start()
    assert values(read(bootstrap, "t")) == expected
    later = ConfluentProducer(quiet.bootstrap, "java")
    later.begin()
    later.send("t", 0, ["later"])
    later.commit()
    wait_until(lambda: values(read(quiet.bootstrap, "t")) == [*expected, "later"], "the last transaction committed")
