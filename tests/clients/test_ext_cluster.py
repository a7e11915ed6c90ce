"""`ext-cluster`, by which other projects' tests start their brokers."""

import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

EXT_CLUSTER = Path(__file__).parent / "ext-cluster"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=7\n")
    (tmp_path / "server-0.properties").write_text("group.max.size=3\n")
    return path


def test_the_first_line_is_where_a_broker_with_these_properties_listens(tmp_path: Path, properties: Path) -> None:
    with subprocess.Popen(
        [EXT_CLUSTER, tmp_path, "1", properties], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as cluster:
        try:
            assert cluster.stdout is not None
            admin = AdminClient({"bootstrap.servers": cluster.stdout.readline().strip(), "log_level": 0})
            (asked,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]).values()
            settings = asked.result(30)
        finally:
            cluster.kill()
        # Killed as hard as can be: the pipe ends only when no broker is left that could write to it.
        assert cluster.stdout.read() == ""
    assert (settings["num.partitions"].value, settings["group.max.size"].value) == ("7", "3")


def test_several_brokers_are_refused(tmp_path: Path, properties: Path) -> None:
    done = subprocess.run([EXT_CLUSTER, tmp_path, "3", properties], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "3 brokers asked for" in done.stderr
