"""Broker configs of transactions (Kafka: `TransactionLogConfig`, `TransactionStateManagerConfig`, and others).

`controller.configs.config_table` explains the columns.
"""

from controller.configs.config_table import table

TRANSACTION_CONFIGS = table(
    """
    add.partitions.to.txn.retry.backoff.max.ms INT 100 read-only 0..
        Maximum wait of a Produce whose partition cannot be added yet, because another transaction is completing.
    add.partitions.to.txn.retry.backoff.ms INT 20 read-only 1..
        Interval at which such a partition is added again.
    transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 read-only 1..
        Interval at which timed-out transactions are aborted.
    transaction.max.timeout.ms INT 900000 read-only 1..
        Maximum transaction timeout that a producer can request.
    transaction.partition.verification.enable BOOLEAN true cluster-wide
        Whether a partition verifies a transaction with the coordinator before it accepts its first records.
    transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 read-only 1..
        Interval at which expired transactional ids are removed.
    transaction.state.log.load.buffer.size INT 5242880 read-only 1..
        Bytes per read when the state of transactions is loaded.
    transaction.state.log.min.isr INT 2 read-only 1..
        The min.insync.replicas of __transaction_state.
    transaction.state.log.num.partitions INT 50 read-only 1..
        Number of partitions of __transaction_state; must not change once the topic exists.
    transaction.state.log.replication.factor SHORT 3 read-only 1..
        Replication factor of __transaction_state.
    transaction.state.log.segment.bytes INT 104857600 read-only 1..
        The segment.bytes of __transaction_state.
    transaction.two.phase.commit.enable BOOLEAN false read-only
        Whether producers can take part in two-phase commit: transactions without a timeout, kept for the next producer.
    transactional.id.expiration.ms INT 604800000 read-only 1..
        Time for which a transactional id without transactions is kept.
    """
)
