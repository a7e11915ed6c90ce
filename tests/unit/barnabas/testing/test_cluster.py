from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from barnabas import testing
from barnabas.testing import Cluster, ClusterError, ControlRefusal


def test_every_broker_of_a_started_cluster_lists_all_others() -> None:
    with Cluster(3) as cluster:
        for broker in cluster.brokers:
            listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics().brokers
            assert sorted(f"{one.host}:{one.port}" for one in listed.values()) == sorted(cluster.bootstrap_servers)
        assert cluster.bootstrap == ",".join(cluster.bootstrap_servers)


def test_nothing_of_the_server_is_imported_into_the_process_of_the_test() -> None:
    assert {"broker", "protocol", "storage", "controller"} >= {"broker"}
    source = "import sys; from barnabas.testing import Cluster\nwith Cluster() as c: c.topic().produce(['a'])\n"
    source += (
        "print([name for name in sys.modules if name.partition('.')[0] in ('broker', 'storage', 'kafka', 'uvloop')])"
    )
    assert os.popen(f'{sys.executable} -c "{source}"').read() == "[]\n"


def test_config_and_strict_topics_reach_all_brokers() -> None:
    with Cluster(2, config={"num.partitions": 5, "log.cleaner.enable": False}, strict_topics=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        assert cluster.topic(partitions=5).describe()["partitions"]
        assert not admin.list_topics("unknown").topics["unknown"].partitions
        assert "unknown" not in cluster.existing().topics


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"brokers": 0}, ValueError, "brokers=0: a cluster has 1 to 64"),
        ({"brokers": "3"}, TypeError, "brokers='3': it has to be a whole number, not str"),
        ({"brokers": True}, TypeError, "brokers=True: it has to be a whole number, not bool"),
        ({"ports": 9092}, TypeError, "ports=9092: it has to be a list of numbers, one for each broker, not int"),
        ({"ports": ["9092"]}, TypeError, "ports='9092': it has to be a whole number, not str"),
        ({"config": "num.partitions=3"}, TypeError, "config='num.partitions=3': it has to be a dict, not str"),
        ({"config": {"listeners": "x"}}, ValueError, "config: the cluster itself sets listeners"),
        (
            {"config": {"num.io.threads": "x"}},
            ClusterError,
            "broker 1 ended with status 2 at its start: -D num.io.threads: Invalid value x",
        ),
        ({"host": "192.0.2.1"}, ClusterError, "cannot listen on 192.0.2.1:0"),
        ({"directory": "/dev/null/x"}, ClusterError, "/dev/null/x: not a directory"),
        ({"directory": "/proc/x"}, ClusterError, "/proc/x: no such file or directory"),
        ({"snapshot": "/nowhere"}, ClusterError, "there is no snapshot /nowhere: "),
    ],
)
def test_a_cluster_that_cannot_start_says_why(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message.replace(".", r"\.")):
        Cluster(**arguments).start()  # type: ignore[arg-type]


def test_unknown_settings_are_warned_of_with_what_was_meant() -> None:
    with (
        pytest.warns(
            UserWarning, match=r"unknown settings: .*num\.partition \(did you mean num\.partitions\?\)$"
        ) as found,
        Cluster(config={"num.partition": 3}),
    ):
        pass
    assert [warning.filename for warning in found] == [__file__]


def test_a_warning_of_unknown_settings_is_of_this_start(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.warns(UserWarning, match="unknown settings"), Cluster(directory=tmp_path, config={"num.partition": 3}):
        pass
    with Cluster(directory=tmp_path, config={"num.partitions": 3}):
        pass
    assert [str(found.message) for found in recwarn] == []


def test_a_given_directory_is_kept_and_used_again(tmp_path: Path) -> None:
    place = tmp_path / "data"
    with Cluster(3, directory=place) as cluster:
        topic = cluster.topic(partitions=3)
        topic.produce(["a", "b"])
        assert cluster.directory == place
        with pytest.raises(ClusterError, match="is in use by"), Cluster(3, directory=place):
            pass
    with Cluster(3, directory=place) as cluster:
        assert len(cluster.topic(topic.name, create=False).expect(2)) == 2


def test_a_temporary_directory_is_deleted() -> None:
    with Cluster() as cluster:
        place = cluster.directory
        assert (place / "1" / "meta.properties").exists()
    assert not place.exists()


def test_a_cluster_can_be_started_once_at_a_time() -> None:
    cluster = Cluster()
    cluster.close()
    for _ in range(2):
        with cluster, pytest.raises(ClusterError, match="started already"):
            cluster.start()
    with pytest.raises(ClusterError, match="the cluster does not run: use it in a `with` block"):
        cluster.topic()


def test_addresses_before_the_start_are_refused() -> None:
    cluster = Cluster()
    for name in ("bootstrap", "bootstrap_servers", "environment"):
        with pytest.raises(
            ClusterError, match=r"the cluster does not run: use it in a `with` block, or call start\(\)"
        ):
            getattr(cluster, name)
    assert repr(cluster) == "<Cluster not running>"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cluster: cluster.topic(5), "name=5: it has to be a text, not int"),
        (lambda cluster: cluster.topic(partitions="3"), "partitions='3': it has to be a whole number, not str"),
        (lambda cluster: cluster.topic(replication_factor=2.0), "replication_factor=2.0: it has to be a whole number"),
        (lambda cluster: cluster.topic(config=["x"]), "config=['x']: it has to be a dict, not list"),
        (lambda cluster: cluster.topic().expect("3"), "count='3': it has to be a whole number, not str"),
        (lambda cluster: cluster.topic().expect(3, timeout="1 s"), "timeout='1 s': it has to be a number, not str"),
        (lambda cluster: cluster.group(5), "name=5: it has to be a text, not int"),
        (lambda cluster: cluster.fence_producer(5), "transactional_id=5: it has to be a text, not int"),
        (lambda cluster: cluster.abort_transaction(5), "transactional_id=5: it has to be a text, not int"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(one: Cluster, call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        call(one)


def test_more_replicas_than_brokers_are_refused(three: Cluster) -> None:
    with pytest.raises(
        ControlRefusal, match=r"factor of 4 cannot be reached because only 3 broker\(s\) are"
    ) as refused:
        three.topic(replication_factor=4)
    assert isinstance(refused.value, ClusterError)
    assert refused.value.status == 400


def test_the_environment_has_the_addresses(three: Cluster) -> None:
    environment = three.environment
    assert environment["KAFKA_BOOTSTRAP_SERVERS"] == environment["BARNABAS_BROKERS"] == three.bootstrap
    assert environment["BARNABAS_CONTROL"].split(",") == [broker.control_url for broker in three.brokers]


def test_names_are_made_with_the_prefix(one: Cluster) -> None:
    one.name_prefix = "mine-"
    assert one.topic().name.startswith("mine-topic-")
    assert one.group().name.startswith("mine-group-")


def test_a_sweep_deletes_all_but_what_is_kept() -> None:
    with Cluster(3) as cluster:
        cluster.topic("kept")
        kept = cluster.existing()
        assert kept.topics == ["kept"]
        cluster.topic("left")
        cluster.brokers[0].kill()
        cluster.brokers[1].pause()
        assert cluster.reset(kept).topics == ["left"]
        assert cluster.existing().topics == ["kept"]
        assert all(broker.is_running and not broker.is_paused for broker in cluster.brokers)


def test_a_cluster_of_broken_processes_describes_them() -> None:
    with Cluster(2) as cluster:
        topic = cluster.topic()
        cluster.brokers[0].kill()
        cluster.brokers[1].pause()
        with pytest.raises(ClusterError, match=r"broker 1 was killed; broker 2, process \d+, is paused"):
            topic.describe()


def test_the_package_has_no_other_names() -> None:
    assert all(getattr(testing, name).__name__ == name for name in testing.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        testing.Other  # noqa: B018


def test_a_system_without_the_server_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.testing import _launchers

    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ClusterError, match="Barnabas needs Linux or macOS: on Windows, run the tests in WSL"):
        _launchers._new()
