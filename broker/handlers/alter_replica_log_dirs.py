"""AlterReplicaLogDirs: move replicas of this broker between data directories (KIP-113).

Behaviour
- The response is sent when the moves have started; DescribeLogDirs has their progress. For a replica that is already
  in the directory, nothing moves, and a move to another directory is cancelled.
- A directory is named by its absolute path, as in DescribeLogDirs; any other path is LOG_DIR_NOT_FOUND. A cordoned
  directory takes no replicas: INVALID_REPLICA_ASSIGNMENT. While any directory is offline nothing moves:
  KAFKA_STORAGE_ERROR.
- REPLICA_NOT_AVAILABLE for a partition without a replica here. Kafka remembers the directory for the replica's later
  creation; here the controller chooses it.
- The directory of a future replica has a longer name than the log's: INVALID_TOPIC_EXCEPTION if it is too long.
- If a partition is named twice, the last directory counts.
"""

import asyncio
import logging
import os.path

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from storage.log.names import future_name_fits

_Topic = AlterReplicaLogDirsResponse.Topic

_log = logging.getLogger("broker.moves")


async def handle(
    broker: BrokerServer, _context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Start, change or cancel the requested moves, one per turn of the loop."""
    wanted = {
        (topic.name, index): wish.path for wish in request.dirs for topic in wish.topics for index in topic.partitions
    }
    answers: dict[str, list[_Topic.Partition]] = {}
    for (topic, index), path in wanted.items():
        code = ErrorCode.NONE
        try:
            _move(broker, topic, index, path)
        except KafkaError as error:
            # Kafka returns this code here, for compatibility.
            absent = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            code = ErrorCode.REPLICA_NOT_AVAILABLE if absent else error.code
        except InvariantError:
            raise
        except Exception:
            # Log it here: the response has no field for a message.
            _log.exception("Moving %s-%d failed", topic, index)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        answers.setdefault(topic, []).append(_Topic.Partition(partition_index=index, error_code=code))
        await asyncio.sleep(0)
    return AlterReplicaLogDirsResponse(
        results=[_Topic(topic_name=topic, partitions=partitions) for topic, partitions in answers.items()]
    )


def _move(broker: BrokerServer, topic: str, index: int, path: str) -> None:
    if not future_name_fits((topic, index)):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the name of {topic} is too long to be moved")
    target = next((one for one in broker.logs.directories if os.path.abspath(one.path) == path), None)
    if target is None:
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")
    if target.failure is not None:
        raise target.offline()
    node = broker.image.brokers.get(broker.node_id)
    if node is not None and target.directory_id in (node.cordoned_directories or ()):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned")
    log = broker.replicas.partition(topic, index).log
    if broker.moves is not None:  # else the replica is in the only directory
        broker.moves.begin(log, target)
