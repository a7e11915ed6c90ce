"""Short forms of requests from nodes to controllers."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey, request_class
from protocol.errors import ErrorCode
from simulation.cluster import CONTROLLER_PORT
from tests.unit.broker.whole_cluster import WholeCluster

METADATA = "__cluster_metadata"


def query(cluster: WholeCluster, key: ApiKey, version: int, /, *, node: int | None = None, **fields: Any) -> Any:
    """Send a request to a controller, by default the active one, on the controller listener."""
    return cluster.query(node or cluster.active, key, version, port=CONTROLLER_PORT, **fields)


def query_quorum(cluster: WholeCluster, key: ApiKey, version: int, /, *, node: int | None = None, **fields: Any) -> Any:
    """Request the metadata log's one partition; return its response, or the top-level error."""
    of = fields.pop("of", {})
    requests: Any = request_class(key)
    partition = requests.Topic.Partition(partition_index=0, **fields)
    topic = requests.Topic(topic_name=METADATA, partitions=[partition])
    answer = query(cluster, key, version, node=node, **{"cluster_id": cluster_id(cluster), "topics": [topic], **of})
    return ErrorCode(answer.error_code) if answer.error_code else answer.topics[0].partitions[0]


def cluster_id(cluster: WholeCluster) -> str:
    return cluster.broker(cluster.active).cluster_id


def epoch(cluster: WholeCluster, broker_id: int) -> int:
    """Return a broker's epoch."""
    return cluster.raft(cluster.active).image.brokers[broker_id].epoch
