"""Kafka's configurations that this broker accepts and shows, and on which it does not act.

A properties file written for Apache Kafka must not be refused, and tools list what Kafka lists; so each is here with
its type and default, under the reason why it has no effect. One that gets an effect moves to the module of its subject.
Columns: name, type, default (`null`: none; `''`: the empty text), and where it may be altered while the broker runs.
"""

from __future__ import annotations

from controller.configs.definition import ConfigDef, ConfigType, UpdateMode

_TABLES = {
    "it is written with the recovery points, every log.flush.offset.checkpoint.interval.ms": """
        log.flush.start.offset.checkpoint.interval.ms INT 60000 read-only
        replica.high.watermark.checkpoint.interval.ms LONG 5000 read-only
    """,
    "authentication by SASL is not there yet": """
        sasl.client.callback.handler.class CLASS null read-only
        sasl.enabled.mechanisms LIST GSSAPI per-broker
        sasl.jaas.config PASSWORD null per-broker
        sasl.kerberos.kinit.cmd STRING /usr/bin/kinit per-broker
        sasl.kerberos.min.time.before.relogin LONG 60000 per-broker
        sasl.kerberos.principal.to.local.rules LIST DEFAULT per-broker
        sasl.kerberos.service.name STRING null per-broker
        sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 per-broker
        sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 per-broker
        sasl.login.callback.handler.class CLASS null read-only
        sasl.login.class CLASS null read-only
        sasl.login.connect.timeout.ms INT null read-only
        sasl.login.read.timeout.ms INT null read-only
        sasl.login.refresh.buffer.seconds SHORT 300 per-broker
        sasl.login.refresh.min.period.seconds SHORT 60 per-broker
        sasl.login.refresh.window.factor DOUBLE 0.8 per-broker
        sasl.login.refresh.window.jitter DOUBLE 0.05 per-broker
        sasl.login.retry.backoff.max.ms LONG 10000 read-only
        sasl.login.retry.backoff.ms LONG 100 read-only
        sasl.mechanism.controller.protocol STRING GSSAPI read-only
        sasl.mechanism.inter.broker.protocol STRING GSSAPI per-broker
        sasl.oauthbearer.assertion.algorithm STRING RS256 read-only
        sasl.oauthbearer.assertion.claim.aud STRING null read-only
        sasl.oauthbearer.assertion.claim.exp.seconds INT 300 read-only
        sasl.oauthbearer.assertion.claim.iss STRING null read-only
        sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false read-only
        sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 read-only
        sasl.oauthbearer.assertion.claim.sub STRING null read-only
        sasl.oauthbearer.assertion.file STRING null read-only
        sasl.oauthbearer.assertion.private.key.file STRING null read-only
        sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null read-only
        sasl.oauthbearer.assertion.template.file STRING null read-only
        sasl.oauthbearer.client.credentials.client.id STRING null read-only
        sasl.oauthbearer.client.credentials.client.secret PASSWORD null read-only
        sasl.oauthbearer.clock.skew.seconds INT 30 read-only
        sasl.oauthbearer.expected.audience LIST '' read-only
        sasl.oauthbearer.expected.issuer STRING null read-only
        sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000 read-only
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000 read-only
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100 read-only
        sasl.oauthbearer.jwks.endpoint.url STRING null read-only
        sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever read-only
        sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator read-only
        sasl.oauthbearer.scope STRING null read-only
        sasl.oauthbearer.scope.claim.name STRING scope read-only
        sasl.oauthbearer.sub.claim.name STRING sub read-only
        sasl.oauthbearer.token.endpoint.url STRING null read-only
        sasl.server.callback.handler.class CLASS null read-only
        sasl.server.max.receive.size INT 524288 read-only
    """,  # noqa: E501
    "encryption by TLS is not there yet": """
        principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder per-broker
        security.providers STRING null read-only
        ssl.allow.dn.changes BOOLEAN false read-only
        ssl.allow.san.changes BOOLEAN false read-only
        ssl.cipher.suites LIST '' per-broker
        ssl.client.auth STRING none per-broker
        ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 per-broker
        ssl.endpoint.identification.algorithm STRING https per-broker
        ssl.engine.factory.class CLASS null per-broker
        ssl.key.password PASSWORD null per-broker
        ssl.keymanager.algorithm STRING SunX509 per-broker
        ssl.keystore.certificate.chain PASSWORD null per-broker
        ssl.keystore.key PASSWORD null per-broker
        ssl.keystore.location STRING null per-broker
        ssl.keystore.password PASSWORD null per-broker
        ssl.keystore.type STRING JKS per-broker
        ssl.principal.mapping.rules STRING DEFAULT read-only
        ssl.protocol STRING TLSv1.3 per-broker
        ssl.provider STRING null per-broker
        ssl.secure.random.implementation STRING null per-broker
        ssl.trustmanager.algorithm STRING PKIX per-broker
        ssl.truststore.certificates PASSWORD null per-broker
        ssl.truststore.location STRING null per-broker
        ssl.truststore.password PASSWORD null per-broker
        ssl.truststore.type STRING JKS per-broker
    """,  # noqa: E501
    "authorization and delegation tokens are not there yet": """
        authorizer.class.name STRING '' read-only
        connection.failed.authentication.delay.ms INT 100 read-only
        connections.max.reauth.ms LONG 0 read-only
        delegation.token.expiry.check.interval.ms LONG 3600000 read-only
        delegation.token.expiry.time.ms LONG 86400000 read-only
        delegation.token.max.lifetime.ms LONG 604800000 read-only
        delegation.token.secret.key PASSWORD null read-only
        early.start.listeners LIST null read-only
    """,
    "tiered storage is not there yet": """
        follower.fetch.last.tiered.offset.enable BOOLEAN false cluster-wide
        log.local.retention.bytes LONG -2 cluster-wide
        log.local.retention.ms LONG -2 cluster-wide
        remote.fetch.max.wait.ms INT 500 cluster-wide
        remote.list.offsets.request.timeout.ms LONG 30000 cluster-wide
        remote.log.index.file.cache.total.size.bytes LONG 1073741824 cluster-wide
        remote.log.manager.copier.thread.pool.size INT 10 cluster-wide
        remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 cluster-wide
        remote.log.manager.copy.quota.window.num INT 11 read-only
        remote.log.manager.copy.quota.window.size.seconds INT 1 read-only
        remote.log.manager.expiration.thread.pool.size INT 10 cluster-wide
        remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 cluster-wide
        remote.log.manager.fetch.quota.window.num INT 11 read-only
        remote.log.manager.fetch.quota.window.size.seconds INT 1 read-only
        remote.log.manager.follower.thread.pool.size INT 2 cluster-wide
        remote.log.manager.task.interval.ms LONG 30000 read-only
        remote.log.manager.thread.pool.size INT 2 read-only
        remote.log.metadata.custom.metadata.max.bytes INT 128 read-only
        remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager read-only
        remote.log.metadata.manager.class.path STRING null read-only
        remote.log.metadata.manager.impl.prefix STRING rlmm.config. read-only
        remote.log.metadata.manager.listener.name STRING null read-only
        remote.log.reader.max.pending.tasks INT 100 read-only
        remote.log.reader.threads INT 10 cluster-wide
        remote.log.storage.manager.class.name STRING null read-only
        remote.log.storage.manager.class.path STRING null read-only
        remote.log.storage.manager.impl.prefix STRING rsm.config. read-only
        remote.log.storage.system.enable BOOLEAN false read-only
    """,  # noqa: E501
    "transactions are not there yet": """
        add.partitions.to.txn.retry.backoff.max.ms INT 100 read-only
        add.partitions.to.txn.retry.backoff.ms INT 20 read-only
        transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 read-only
        transaction.max.timeout.ms INT 900000 read-only
        transaction.partition.verification.enable BOOLEAN true cluster-wide
        transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 read-only
        transaction.state.log.load.buffer.size INT 5242880 read-only
        transaction.state.log.min.isr INT 2 read-only
        transaction.state.log.num.partitions INT 50 read-only
        transaction.state.log.replication.factor SHORT 3 read-only
        transaction.state.log.segment.bytes INT 104857600 read-only
        transaction.two.phase.commit.enable BOOLEAN false read-only
        transactional.id.expiration.ms INT 604800000 read-only
    """,
    "the consumer, share and streams group protocols are not there yet": """
        group.consumer.assignment.interval.ms INT 1000 cluster-wide
        group.consumer.assignors LIST uniform,range read-only
        group.consumer.heartbeat.interval.ms INT 5000 read-only
        group.consumer.max.assignment.interval.ms INT 15000 read-only
        group.consumer.max.heartbeat.interval.ms INT 15000 read-only
        group.consumer.max.session.timeout.ms INT 60000 read-only
        group.consumer.max.size INT 2147483647 read-only
        group.consumer.migration.policy STRING bidirectional read-only
        group.consumer.min.assignment.interval.ms INT 0 read-only
        group.consumer.min.heartbeat.interval.ms INT 5000 read-only
        group.consumer.min.session.timeout.ms INT 45000 read-only
        group.consumer.session.timeout.ms INT 45000 read-only
        group.share.assignment.interval.ms INT 1000 cluster-wide
        group.share.assignors LIST simple read-only
        group.share.delivery.count.limit INT 5 read-only
        group.share.heartbeat.interval.ms INT 5000 read-only
        group.share.max.assignment.interval.ms INT 15000 read-only
        group.share.max.delivery.count.limit INT 10 read-only
        group.share.max.heartbeat.interval.ms INT 15000 read-only
        group.share.max.partition.max.record.locks INT 4000 read-only
        group.share.max.record.lock.duration.ms INT 60000 read-only
        group.share.max.session.timeout.ms INT 60000 read-only
        group.share.max.share.sessions INT 2000 read-only
        group.share.max.size INT 200 read-only
        group.share.min.assignment.interval.ms INT 0 read-only
        group.share.min.delivery.count.limit INT 2 read-only
        group.share.min.heartbeat.interval.ms INT 5000 read-only
        group.share.min.partition.max.record.locks INT 100 read-only
        group.share.min.record.lock.duration.ms INT 15000 read-only
        group.share.min.session.timeout.ms INT 45000 read-only
        group.share.partition.max.record.locks INT 2000 read-only
        group.share.record.lock.duration.ms INT 30000 read-only
        group.share.session.timeout.ms INT 45000 read-only
        group.streams.assignment.interval.ms INT 1000 cluster-wide
        group.streams.heartbeat.interval.ms INT 5000 read-only
        group.streams.initial.rebalance.delay.ms INT 3000 read-only
        group.streams.max.assignment.interval.ms INT 15000 read-only
        group.streams.max.heartbeat.interval.ms INT 15000 read-only
        group.streams.max.session.timeout.ms INT 60000 read-only
        group.streams.max.size INT 2147483647 read-only
        group.streams.max.standby.replicas INT 2 read-only
        group.streams.min.assignment.interval.ms INT 0 read-only
        group.streams.min.heartbeat.interval.ms INT 5000 read-only
        group.streams.min.session.timeout.ms INT 45000 read-only
        group.streams.num.standby.replicas INT 0 read-only
        group.streams.session.timeout.ms INT 45000 read-only
        share.coordinator.append.linger.ms INT -1 read-only
        share.coordinator.cached.buffer.max.bytes INT 1048588 cluster-wide
        share.coordinator.load.buffer.size INT 5242880 read-only
        share.coordinator.snapshot.update.records.per.snapshot INT 500 read-only
        share.coordinator.state.topic.compression.codec INT 0 read-only
        share.coordinator.state.topic.min.isr SHORT 2 read-only
        share.coordinator.state.topic.num.partitions INT 50 read-only
        share.coordinator.state.topic.replication.factor SHORT 3 read-only
        share.coordinator.state.topic.segment.bytes INT 104857600 read-only
        share.coordinator.threads INT 1 read-only
        share.coordinator.write.timeout.ms INT 5000 read-only
        share.fetch.purgatory.purge.interval.requests INT 1000 read-only
    """,
    "compaction and the broker's own compression are not there yet": """
        compression.gzip.level INT -1 cluster-wide
        compression.lz4.level INT 9 cluster-wide
        compression.zstd.level INT 3 cluster-wide
        log.cleaner.backoff.ms LONG 15000 cluster-wide
        log.cleaner.dedupe.buffer.size LONG 134217728 cluster-wide
        log.cleaner.enable BOOLEAN true read-only
        log.cleaner.io.buffer.load.factor DOUBLE 0.9 cluster-wide
        log.cleaner.io.buffer.size INT 524288 cluster-wide
        log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 cluster-wide
        log.cleaner.threads INT 1 cluster-wide
    """,
    "quotas, connection limits and client telemetry are not there yet": """
        alter.log.dirs.replication.quota.window.num INT 11 read-only
        alter.log.dirs.replication.quota.window.size.seconds INT 1 read-only
        client.quota.callback.class CLASS null read-only
        controller.quota.window.num INT 11 read-only
        controller.quota.window.size.seconds INT 1 read-only
        max.connection.creation.rate INT 2147483647 cluster-wide
        max.connections.per.ip.overrides STRING '' cluster-wide
        quota.window.num INT 11 read-only
        quota.window.size.seconds INT 1 read-only
        replication.quota.window.num INT 11 read-only
        replication.quota.window.size.seconds INT 1 read-only
        telemetry.max.bytes INT 1048576 read-only
    """,
    "a cluster of several brokers is not there yet": """
        security.inter.broker.protocol STRING PLAINTEXT read-only
        auto.leader.rebalance.enable BOOLEAN true read-only
        broker.heartbeat.interval.ms INT 2000 read-only
        broker.session.timeout.ms INT 9000 read-only
        controlled.shutdown.enable BOOLEAN true read-only
        controller.quorum.append.linger.ms INT 25 read-only
        controller.quorum.auto.join.enable BOOLEAN false read-only
        controller.quorum.bootstrap.servers LIST '' read-only
        controller.quorum.election.backoff.max.ms INT 1000 read-only
        controller.quorum.election.timeout.ms INT 1000 read-only
        controller.quorum.fetch.max.bytes INT 1048576 read-only
        controller.quorum.fetch.snapshot.max.bytes INT 1048576 read-only
        controller.quorum.fetch.timeout.ms INT 2000 read-only
        controller.quorum.request.timeout.ms INT 2000 read-only
        controller.quorum.retry.backoff.ms INT 20 read-only
        controller.socket.timeout.ms INT 30000 read-only
        cordoned.log.dirs LIST '' per-broker
        initial.broker.registration.timeout.ms INT 60000 read-only
        leader.imbalance.check.interval.seconds LONG 300 read-only
        log.dir.failure.timeout.ms LONG 30000 read-only
        metadata.max.idle.interval.ms INT 500 read-only
        num.replica.alter.log.dirs.threads INT null read-only
        num.replica.fetchers INT 1 cluster-wide
        replica.fetch.backoff.ms INT 1000 read-only
        replica.fetch.max.bytes INT 1048576 read-only
        replica.fetch.min.bytes INT 1 read-only
        replica.fetch.response.max.bytes INT 10485760 read-only
        replica.fetch.wait.max.ms INT 500 read-only
        replica.lag.time.max.ms LONG 30000 read-only
        replica.selector.class STRING null read-only
        replica.socket.receive.buffer.bytes INT 65536 read-only
        replica.socket.timeout.ms INT 30000 read-only
    """,
    "this broker is one event loop and has no such threads, queues or buffers": """
        background.threads INT 10 cluster-wide
        delete.records.purgatory.purge.interval.requests INT 1 read-only
        fetch.purgatory.purge.interval.requests INT 1000 read-only
        group.coordinator.append.linger.ms INT -1 read-only
        group.coordinator.background.threads INT 2 read-only
        group.coordinator.cached.buffer.max.bytes INT 1048588 cluster-wide
        group.coordinator.threads INT 4 read-only
        num.io.threads INT 8 cluster-wide
        num.network.threads INT 3 cluster-wide
        num.recovery.threads.per.data.dir INT 2 cluster-wide
        producer.purgatory.purge.interval.requests INT 1000 read-only
        queued.max.request.bytes LONG -1 read-only
        queued.max.requests INT 500 read-only
        request.timeout.ms INT 30000 read-only
        socket.connection.setup.timeout.max.ms LONG 30000 read-only
        socket.connection.setup.timeout.ms LONG 10000 read-only
        socket.listen.backlog.size INT 50 read-only
        socket.receive.buffer.bytes INT 102400 read-only
        socket.send.buffer.bytes INT 102400 read-only
    """,
    "it names Java classes or the like, which have no counterpart here": """
        alter.config.policy.class.name CLASS null read-only
        config.providers LIST '' cluster-wide
        create.topic.policy.class.name CLASS null read-only
        group.coordinator.rebalance.protocols LIST classic,consumer,streams read-only
        kafka.metrics.polling.interval.secs INT 10 read-only
        kafka.metrics.reporters LIST '' read-only
        metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter cluster-wide
        metrics.num.samples INT 2 read-only
        metrics.recording.level STRING INFO read-only
        metrics.sample.window.ms LONG 30000 read-only
    """,
}


def _definition(row: str, reason: str) -> ConfigDef:
    name, type_name, default, mode = row.split()
    return ConfigDef(
        name,
        ConfigType[type_name],
        None if default == "null" else default.strip("'"),
        f"Accepted without effect: {reason}.",
        update_mode=UpdateMode(mode),
        effective=False,
    )


RESERVED_CONFIGS = tuple(
    _definition(row, reason) for reason, table in _TABLES.items() for row in table.strip().splitlines()
)
