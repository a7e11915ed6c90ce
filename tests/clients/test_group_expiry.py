"""Expiration of offsets and groups."""

import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from protocol.api import ApiKey
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

SETTINGS = {"offsets.retention.check.interval.ms": 50, "offsets.topic.num.partitions": 1}
PATIENCE_S = 60


def test_expired_commit_and_its_empty_group_are_deleted(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        (created,) = admin.create_topics([NewTopic("t", 1, 1)]).values()
        created.result(PATIENCE_S)
        client = RawClient(broker.bootstrap)
        assert client.call(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0).error_code == 0
        offset = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5, committed_metadata="")
        topics = [OffsetCommitRequest.Topic(name="t", partitions=[offset])]
        fields = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        client.call(ApiKey.OFFSET_COMMIT, 4, group_id="stays", retention_time_ms=-1, **fields)
        answer = client.call(ApiKey.OFFSET_COMMIT, 4, group_id="goes", retention_time_ms=1, **fields)
        assert answer.topics[0].partitions[0].error_code == 0
        deadline = time.monotonic() + PATIENCE_S
        while len(client.call(ApiKey.LIST_GROUPS, 4).groups) > 1:
            assert time.monotonic() < deadline
        [left] = client.call(ApiKey.LIST_GROUPS, 4).groups
        assert left.group_id == "stays"
        client.close()
