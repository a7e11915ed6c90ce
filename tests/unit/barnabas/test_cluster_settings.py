from __future__ import annotations

import pytest

from barnabas._cluster_settings import Address, NodeAddresses, new_cluster_id, settings_of, voter_count


def nodes(count: int) -> list[NodeAddresses]:
    return [
        NodeAddresses(n, Address("h", n), Address("h", 10 + n) if n <= voter_count(count) else None)
        for n in range(1, count + 1)
    ]


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (9, 3)])
def test_voter_count_is_odd_and_at_most_three(brokers: int, voters: int) -> None:
    assert voter_count(brokers) == voters


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")])
def test_replication_factor_is_the_number_of_brokers_up_to_three(brokers: int, copies: str, in_sync: str) -> None:
    settings = settings_of(nodes(brokers)[0], nodes(brokers), "id", "/d/1", {})
    assert settings["default.replication.factor"] == settings["offsets.topic.replication.factor"] == copies
    assert settings["min.insync.replicas"] == in_sync


def test_every_node_has_the_voters_and_voters_have_a_controller_listener() -> None:
    settings = [settings_of(node, nodes(4), "id", f"/d/{node.node_id}", {}) for node in nodes(4)]
    assert {one["controller.quorum.voters"] for one in settings} == {"1@h:11,2@h:12,3@h:13"}
    assert [one["process.roles"] for one in settings] == ["broker,controller"] * 3 + ["broker"]
    assert settings[0]["listeners"] == "PLAINTEXT://h:1,CONTROLLER://h:11"
    assert settings[3]["listeners"] == "PLAINTEXT://h:4"


def test_settings_of_the_user_override_the_defaults() -> None:
    (node,) = nodes(1)
    settings = settings_of(node, [node], "id", "/d", {"min.insync.replicas": "7", "broker.rack": "r"})
    assert (settings["min.insync.replicas"], settings["broker.rack"]) == ("7", "r")
    assert (settings["node.id"], settings["log.dirs"]) == ("1", "/d")


def test_a_cluster_id_is_new_each_time_and_no_option() -> None:
    made = {new_cluster_id() for _ in range(200)}
    assert len(made) == 200
    assert not [one for one in made if one.startswith("-") or len(one) != 22]


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert (str(Address("::1", 1)), str(Address("h", 1))) == ("[::1]:1", "h:1")
