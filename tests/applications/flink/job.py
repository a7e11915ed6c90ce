"""A PyFlink job: count the words of a topic, and write each new count with the exactly-once sink.

Usage: job.py BOOTSTRAP CHECKPOINTS CONNECTOR_JAR [CHECKPOINT]. It runs until it is killed; with CHECKPOINT it goes on
from there. Flink runs in a JVM that this process starts.
"""

import sys

from pyflink.common import Configuration  # type: ignore[import-not-found]  # installed only for this test
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

bootstrap, checkpoints, connector, *restored = sys.argv[1:]
configuration = Configuration()
for name, value in {
    "pipeline.jars": f"file://{connector}",
    "parallelism.default": "1",
    "execution.checkpointing.interval": "300 ms",
    "execution.checkpointing.dir": f"file://{checkpoints}",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.num-retained": "3",
    # After a failure it ends: the test is to restore it, not Flink.
    "restart-strategy.type": "none",
    "taskmanager.memory.managed.size": "32mb",
    "taskmanager.memory.network.min": "16mb",
    "taskmanager.memory.network.max": "16mb",
    **({"execution.state-recovery.path": f"file://{restored[0]}"} if restored else {}),
}.items():
    configuration.set_string(name, value)
table = TableEnvironment.create(EnvironmentSettings.new_instance().with_configuration(configuration).build())
table.execute_sql(
    f"""
    CREATE TABLE words (word STRING) WITH (
        'connector' = 'kafka', 'topic' = 'words', 'format' = 'raw',
        'properties.bootstrap.servers' = '{bootstrap}', 'properties.group.id' = 'flink',
        'scan.startup.mode' = 'earliest-offset')
    """
)
table.execute_sql(
    f"""
    CREATE TABLE counts (word STRING, number STRING, PRIMARY KEY (word) NOT ENFORCED) WITH (
        'connector' = 'upsert-kafka', 'topic' = 'counts', 'key.format' = 'raw',
        'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY',
        'properties.bootstrap.servers' = '{bootstrap}', 'properties.transaction.timeout.ms' = '60000',
        'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'counts')
    """
)
table.execute_sql("INSERT INTO counts SELECT word, CAST(COUNT(*) AS STRING) FROM words GROUP BY word").wait()
