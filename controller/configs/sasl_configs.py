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
    sasl.oauthbearer.clock.skew.seconds INT 30 read-only
        Allowed difference between the clocks of the broker and of the identity provider.
    sasl.oauthbearer.expected.audience LIST '' read-only
        Audiences; a token must have one of them.
    sasl.oauthbearer.expected.issuer STRING null read-only
        The issuer that a token must have.
    sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000 read-only
        Interval at which the keys that verify tokens are fetched again.
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000 read-only
        Maximum wait between two attempts to fetch the keys.
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100 read-only
        First wait between two attempts to fetch the keys; it doubles each time.
    sasl.oauthbearer.jwks.endpoint.url STRING null read-only
        The URL of the keys that verify tokens.
    sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator read-only
        The class that validates tokens.
    sasl.oauthbearer.scope.claim.name STRING scope read-only
        The claim with a token's scope.
    sasl.oauthbearer.sub.claim.name STRING sub read-only
        The claim with a token's subject.
    sasl.server.callback.handler.class CLASS null read-only
        The server callback handler that checks credentials; each mechanism of a listener can have its own.
    sasl.server.max.receive.size INT 524288 read-only
        Maximum bytes read from a client before it is authenticated.
    """  # noqa: E501
)
