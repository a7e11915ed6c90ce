import json
import signal
import subprocess

from tests.broker_process import COMMAND, BrokerProcess


def test_the_cluster_is_shown(barnabas, topic, shared_broker):
    barnabas("topic", "create", f"{topic}:2")
    said = barnabas("cluster")
    assert (said.status, said.err) == (0, "")
    host, port = shared_broker.bootstrap.split(":")
    assert any(line.split() == ["1", host, port, "-", "yes", "no"] for line in said.lines)
    cluster = json.loads(barnabas("cluster", "info", "--json").out)
    assert cluster["controller"] == 1
    assert cluster["partitions"] >= 2
    assert (cluster["without_leader"], cluster["under_min_isr"], cluster["under_replicated"]) == (0, 0, 0)
    assert [(node["node"], node["status"], node["lag"]) for node in cluster["controllers"]] == [(1, "leader", 0)]
    assert {"feature": "metadata.version", "finalized": 30, "supported": "30-30"} in cluster["features"]


def test_what_is_not_as_it_should_be_is_named(call, tmp_path):
    with BrokerProcess(tmp_path, {"min.insync.replicas": 2}) as broker:
        place = ("-b", broker.bootstrap)
        call("topic", "create", "short:1", *place)
        call("topic", "create", "well:1", "-c", "min.insync.replicas=1", *place)
        cluster = json.loads(call("cluster", "--json", *place).out)
        assert cluster["problems"] == [{"partition": "short/0", "problem": "under min ISR"}]
        assert cluster["under_min_isr"] == 1
        assert "short/0    under min ISR" in call("cluster", *place).out


def test_it_is_shown_again_and_again(shared_broker):
    command = [*COMMAND, "cluster", "--watch", "0.01", "-b", shared_broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        firsts = (line for line in watching.stdout if line.startswith("ID "))
        assert next(firsts) == next(firsts)
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
    assert watching.returncode == 0
