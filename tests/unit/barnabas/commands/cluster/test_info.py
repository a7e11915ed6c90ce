import json


def test_the_cluster_is_shown(barnabas, topic, shared_broker):
    barnabas("topic", "create", f"{topic}:2")
    said = barnabas("cluster")
    assert (said.status, said.err) == (0, "")
    host, port = shared_broker.bootstrap.split(":")
    assert any(line.split() == ["1", host, port, "-", "yes", "no"] for line in said.lines)
    cluster = json.loads(barnabas("cluster", "info", "--json").out)
    assert cluster["controller"] == 1
    assert cluster["partitions"] >= 2
    assert (cluster["without_leader"], cluster["under_replicated"]) == (0, 0)
    assert {"feature": "metadata.version", "finalized": 30, "supported": "30-30"} in cluster["features"]
