"""Broker configs of SASL (Kafka: `SaslConfigs`, `BrokerSecurityConfigs`).

`controller.configs.config_table` explains the columns, `controller.configs.listener_names` the settings of single
listeners and mechanisms.
"""

from controller.configs.config_table import table

SASL_CONFIGS = table(
    """
    connection.failed.authentication.delay.ms INT 100 read-only 0..
        Delay before a connection is closed whose authentication failed.
    connections.max.reauth.ms LONG 0 read-only
        Time after which a client must authenticate again; never if 0.
    sasl.enabled.mechanisms LIST GSSAPI per-broker
        The mechanisms that clients can use.
    sasl.jaas.config PASSWORD null per-broker
        The login module of a listener and its options, in JAAS format.
    sasl.mechanism.controller.protocol STRING GSSAPI read-only
        The mechanism for brokers' connections to controllers.
    sasl.mechanism.inter.broker.protocol STRING GSSAPI per-broker
        The mechanism for connections between brokers.
    sasl.server.max.receive.size INT 524288 read-only
        Maximum bytes read from a client before it is authenticated.
    """
)
