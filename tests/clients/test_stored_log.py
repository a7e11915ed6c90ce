"""All data that the clients of this session wrote, read by Apache Kafka's own tool."""

from tests.broker_process import BrokerProcess
from tests.oracles.dump_log_segments import dump, dumpable


def test_apache_kafka_reads_every_file_without_error(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    files = [path for path in dumpable(broker.data_dir) if path.stat().st_size]
    dumped = dump(files)
    assert dumped.complaints == []
    assert set(dumped.files) == set(files)
    broker.start()
