"""One broker for all clients, and separate topics for each test."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.certificates import Certificates
from tests.clients.drills import Attacked, Member, attacked_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for the whole session; no client may have broken it."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), QUICK_GROUPS) as running:
        yield running
    running.check_log()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of an authority of its own, for a broker and for clients."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def attacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A secured broker for the attacks of a module, by its `CONNECTIONS` at a time."""
    with attacked_broker(tmp_path_factory, request.module.CONNECTIONS) as running:
        yield running


@pytest.fixture(scope="module")
def member(attacked: Attacked) -> Iterator[Member]:
    """A member of a group of the attacked broker; the drills check that it stays in it."""
    found = Member(attacked.inside())
    yield found
    found.stop()


@pytest.fixture(scope="session")
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic of this test; the topic does not exist yet."""
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name).strip("-")


@pytest.fixture
def create_topic(admin: AdminClient, topic: str) -> Callable[..., str]:
    """Create this test's topic and return its name."""

    def create(partitions: int = 1, **config: str) -> str:
        (created,) = admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values()
        created.result(30)
        return topic

    return create


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The file for the output of the processes that a test starts."""
    return tmp_path
