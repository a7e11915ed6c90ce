from barnabas.commands._partitions import under_replicated, without_leader


def partition(index: int, leader: int, in_sync: list[int], error_code: int = 0) -> dict:
    return {
        "partition_index": index,
        "leader_id": leader,
        "replica_nodes": [1, 2],
        "isr_nodes": in_sync,
        "error_code": error_code,
    }


TOPICS = [
    {"name": "a", "partitions": [partition(1, 1, [1]), partition(0, 1, [2, 1])]},
    {"name": "b", "partitions": [partition(0, -1, [1, 2]), partition(1, 1, [1, 2], error_code=5)]},
]


def test_partitions_that_nobody_leads():
    assert without_leader(TOPICS) == ["b/0", "b/1"]


def test_partitions_with_replicas_out_of_sync():
    assert under_replicated(TOPICS) == ["a/1"]
