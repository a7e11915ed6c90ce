import json


def test_the_quorum_is_shown(barnabas):
    quorum = json.loads(barnabas("cluster", "quorum", "--json").out)
    assert quorum["leader"] == 1
    (node,) = quorum["nodes"]
    assert (node["node"], node["status"], node["lag"]) == (1, "leader", 0)
    assert len(node["directory"]) == 22
    assert barnabas("cluster", "quorum").lines[-1].split()[:2] == ["1", "leader"]
