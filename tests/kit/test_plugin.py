"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import re
import sys

import pytest

pytest_plugins = ["pytester"]

IMPORTS = """
import pytest
"""
OPTIONS = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")
# Warnings are errors, except kafka-python's own deprecations, as in pyproject.toml.
STRICT = "-ofilterwarnings=error\nignore:(read|open)_text is deprecated. Use files:DeprecationWarning"


def run(pytester: pytest.Pytester, source: str, *options: str, conftest: str = "") -> pytest.RunResult:
    pytester.makepyfile(IMPORTS + source)
    if conftest:
        pytester.makeconftest(conftest)
    return pytester.runpytest_subprocess(*OPTIONS, *options)


SESSION = """
seen = []

def test_first(kafka):
    seen.append((kafka.bootstrap, kafka.topic().name, kafka.group().name))
    kafka.topic("orders").produce(["left by the first test"])

def test_second(kafka):
    seen.append((kafka.bootstrap, kafka.topic().name, kafka.group().name))
    assert kafka.topic("orders").records() == []

@pytest.mark.parametrize("name", ["a/b c", "x" * 300])
def test_with_a_name_that_is_no_topics(kafka, name):
    kafka.topic().produce(["a"])

def test_names():
    (first, topic, group), (second, other_topic, other_group) = seen
    assert first == second
    assert topic.startswith("test-first-") and other_topic.startswith("test-second-")
    assert len({topic, group, other_topic, other_group}) == 4
"""


def test_tests_share_a_broker_and_neither_names_nor_topics(pytester: pytest.Pytester) -> None:
    run(pytester, SESSION, STRICT).assert_outcomes(passed=5)


BREAKERS = """
import os, signal

def test_killed_from_outside(kafka):
    os.kill(kafka.brokers[0].pid, signal.SIGKILL)

def test_ended_by_its_disk(kafka):
    kafka.topic().produce(["a"])
    kafka.brokers[0].disk.fail()
    with pytest.raises(RuntimeError):
        kafka.topic()

def test_killed_without_a_reset(kafka_session):
    kafka_session.brokers[0].kill()

def test_killed(kafka):
    kafka.brokers[0].kill()

def test_paused(kafka):
    kafka.topic().produce(["a"])
    kafka.brokers[0].pause()

def test_served(kafka):
    kafka.topic().produce(["a"])
"""


def test_a_test_gets_a_running_broker_whatever_the_one_before_did(pytester: pytest.Pytester) -> None:
    run(pytester, BREAKERS).assert_outcomes(passed=6)


ENDED = """
import os, signal

def test_failing(kafka_cluster):
    os.kill(kafka_cluster.brokers[1].pid, signal.SIGKILL)
    assert False
"""


def test_the_report_of_a_failing_test_shows_a_broker_that_has_ended_by_itself(pytester: pytest.Pytester) -> None:
    result = run(pytester, ENDED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Kafka (kafka_cluster)*", "broker 2 was killed"])


KEPT = """
from kafka import KafkaProducer

@pytest.fixture(scope="session")
def orders(kafka_session):
    topic = kafka_session.topic("orders")
    topic.produce(["kept"])
    return topic

def test_first(kafka, orders):
    kafka.topic("mine")
    assert len(orders.records()) == 1

def test_second(kafka, orders):
    assert kafka.existing().topics == ["orders"]
    assert len(orders.records()) == 1

def test_options(kafka):
    assert len(kafka.topic("six", partitions=None or 6).leaders) == 6
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    assert producer.partitions_for("by-a-client") == {0, 1, 2}
    producer.close()
"""
OPTIONS_OF_SESSION = """
import pytest

@pytest.fixture(scope="session")
def kafka_options():
    return {"config": {"num.partitions": 3}}
"""


def test_topics_of_session_fixtures_are_kept_and_options_reach_the_sessions_broker(pytester: pytest.Pytester) -> None:
    run(pytester, KEPT, conftest=OPTIONS_OF_SESSION).assert_outcomes(passed=3)


SCOPES = """
pytestmark = pytest.mark.kafka(config={"num.partitions": 2})
seen = []

def test_module_first(kafka_module):
    seen.append(kafka_module.bootstrap)
    kafka_module.topic("kept")

def test_module_second(kafka_module):
    assert kafka_module.bootstrap == seen[0]
    assert kafka_module.existing().topics == ["kept"]

def test_function(kafka_function):
    assert len(kafka_function.brokers) == 1
    seen.append(kafka_function.bootstrap)

def test_function_again(kafka_function):
    assert kafka_function.bootstrap not in seen
    assert kafka_function.existing().topics == []

def test_cluster(kafka_cluster):
    assert len(kafka_cluster.brokers) == 3

@pytest.mark.kafka(2, strict_topics=True)
def test_cluster_of_two(kafka_cluster):
    assert len(kafka_cluster.brokers) == 2
"""


def test_other_clusters_live_as_long_as_their_scopes_and_are_as_marked(pytester: pytest.Pytester) -> None:
    run(pytester, SCOPES, STRICT, "--strict-markers").assert_outcomes(passed=6)


WRONG = """
@pytest.mark.kafka(broker=3)
def test_unknown(kafka_cluster):
    pass

@pytest.mark.kafka(config={"num.io.threads": "many"})
def test_refused(kafka_cluster):
    pass

@pytest.mark.kafka(1, 2)
def test_positional(kafka_cluster):
    pass

@pytest.mark.kafka(brokers=2)
def test_of_the_session(kafka):
    pass
"""


def test_wrong_marks_are_errors_that_name_what_is_wrong(pytester: pytest.Pytester) -> None:
    result = run(pytester, WRONG)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(
        [
            "kafka_cluster: got an unexpected keyword argument 'broker'; Cluster has: brokers, config, *",
            "*-D num.io.threads: Invalid value many for configuration num.io.threads*",
            "pytest.mark.kafka takes the number of brokers, and named arguments of Cluster",
            "pytest.mark.kafka does not change `kafka`, the broker of all tests of the session: use `kafka_function` *",
        ]
    )


LEFT = """
from kafka import KafkaConsumer

consumers = []

def test_leaves_a_member(kafka):
    topic, group = kafka.topic(), kafka.group("workers")
    topic.produce(["a"])
    consumer = KafkaConsumer(
        topic.name,
        group_id="workers",
        client_id="me",
        auto_offset_reset="earliest",
        bootstrap_servers=kafka.bootstrap,
    )
    consumers.append(consumer)
    assert next(consumer).value == b"a"
    group.wait_stable(members=1)

def test_the_group_is_gone(kafka):
    assert kafka.existing().groups == []
    consumers[0].close()
"""


def test_members_that_a_test_leaves_are_removed_with_a_warning(pytester: pytest.Pytester) -> None:
    result = run(pytester, LEFT, "-W", "ignore::DeprecationWarning")
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*LeftoverWarning: *::test_leaves_a_member left members in the group workers: me;*"])


FAILING = """
def test_with_a_broken_broker(kafka_cluster):
    topic = kafka_cluster.topic()
    kafka_cluster.brokers[0].kill()
    kafka_cluster.brokers[1].pause()
    topic.expect(1, timeout=0.01)

def test_without_a_cluster():
    assert False
"""
REPORT = r"""
    def test_with_a_broken_broker\(kafka_cluster\):
        topic = kafka_cluster\.topic\(\)
        kafka_cluster\.brokers\[0\]\.kill\(\)
        kafka_cluster\.brokers\[1\]\.pause\(\)
>       topic\.expect\(1, timeout=0\.01\)
E       barnabas\.testing\.errors\.WaitTimeout: topic \S+: 1 records expected within 0\.01 s, found 0: none; .*

.*py:\d+: WaitTimeout
-+ Kafka \(kafka_cluster\) -+
broker 1 was killed
broker 2, process \d+, is paused
"""


def test_the_report_of_a_failing_test_shows_its_own_line_and_the_clusters_state(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=2)
    printed = str(result.stdout)
    assert re.search(REPORT, printed), printed
    assert "Kafka (" not in printed.partition("test_without_a_cluster")[2]


REQUESTS = """
from confluent_kafka import Producer

def produce(cluster, client_id):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": client_id})
    producer.produce("orders", b"a")
    producer.flush()

def test_before(%(before)s):
    produce(%(before)s, "before")

def test_between(%(between)s):
    produce(%(between)s, "before")

def test_failing(%(failing)s):
    produce(%(failing)s, "failing")
    assert False
"""


@pytest.mark.parametrize(
    "fixtures",
    [
        {"before": "kafka_module", "between": "kafka_module", "failing": "kafka_module"},
        {"before": "kafka", "between": "kafka", "failing": "kafka"},
        {"before": "kafka", "between": "kafka_session", "failing": "kafka_session"},
    ],
)
def test_the_report_of_a_failing_test_shows_the_requests_of_its_clients_only(
    pytester: pytest.Pytester, fixtures: dict[str, str]
) -> None:
    result = run(pytester, REQUESTS % fixtures)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.re_match_lines([r"broker 1: \S+ #\d+ failing: Produce v\d+ .*\{name: orders, .*"])
    result.stdout.no_re_match_line(r"broker 1: \S+ #\d+ before: .*")


MOVED = """
from datetime import timedelta

def test_moves_the_clock(kafka):
    kafka.clock.advance(days=30)
    kafka.brokers[0].network.cut_off()

def test_has_the_time_of_the_system(kafka):
    assert kafka.clock.advanced == timedelta()
    assert kafka.brokers[0].control.call("GET", "/v1/clock")["clock_ms"] == 0
    assert kafka.brokers[0].control.call("GET", "/v1/network") == {"clients": False, "brokers": []}
"""


def test_a_test_gets_a_broker_with_the_systems_time_whatever_the_one_before_did(pytester: pytest.Pytester) -> None:
    run(pytester, MOVED).assert_outcomes(passed=2)


def test_each_worker_of_xdist_has_its_own_broker(pytester: pytest.Pytester) -> None:
    source = """
@pytest.mark.parametrize("number", range(8))
def test_same_names(kafka, number, worker_id):
    kafka.topic("orders").produce([worker_id])
    assert [record.value for record in kafka.topic("orders", create=False).records()] == [worker_id.encode()]
"""
    run(pytester, source, "-n", "2", STRICT).assert_outcomes(passed=8)


ASYNC = """
from aiokafka import AIOKafkaProducer

@pytest.mark.asyncio
async def test_async(kafka):
    topic = await kafka.aio.topic()
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait(topic.name, b"a")
    assert [record.value for record in await topic.expect(1)] == [b"a"]
"""


def test_coroutines_of_pytest_asyncio_use_the_fixtures(pytester: pytest.Pytester) -> None:
    run(pytester, ASYNC, STRICT).assert_outcomes(passed=1)


def test_the_report_shows_what_a_simulation_has_tried(pytester: pytest.Pytester) -> None:
    source = """
from barnabas.testing import simulate

async def main(cluster):
    await cluster.heal()

def test_simulated():
    simulate(main, seed=3, brokers=1, faults=["reset"])

def test_without():
    pass
"""
    result = run(pytester, source, STRICT, "-rP")
    result.assert_outcomes(passed=2)
    result.stdout.re_match_lines([r"-* simulate -*", r"seed 3: \d+\.\d+ s of simulated time, \d+ faults: \d+ reset"])
    assert result.stdout.str().count("-- simulate --") == 1


def test_the_plugin_imports_nothing_that_a_run_without_brokers_does_not_need(pytester: pytest.Pytester) -> None:
    source = """
import sys

def test_modules():
    loaded = {name for name in sys.modules if name.startswith(("barnabas", "kafka"))}
    assert loaded == {"barnabas", "barnabas.testing", "barnabas.testing.plugin"}
"""
    pytester.makepyfile(source)
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


def test_an_interrupted_run_leaves_no_broker(pytester: pytest.Pytester) -> None:
    source = """
import os, signal

def test_interrupted(kafka, kafka_cluster):
    with open("pids", "w") as file:
        print(*(broker.pid for broker in (*kafka.brokers, *kafka_cluster.brokers)), file=file)
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
"""
    result = run(pytester, source)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    pids = (pytester.path / "pids").read_text().split()
    assert len(pids) == 4
    if sys.platform == "linux":
        import os

        assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
