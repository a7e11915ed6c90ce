"""Kafka's configs of authentication and encryption, accepted without effect.

`controller.configs.config_table` explains the columns, `unsupported` the purpose.
"""

from controller.configs.config_table import table

OTHER_SASL_CONFIGS = table(
    """
    sasl.client.callback.handler.class CLASS null read-only
        The client callback handler for the broker's own logins.
    sasl.kerberos.kinit.cmd STRING /usr/bin/kinit per-broker
        The program that gets a Kerberos ticket.
    sasl.kerberos.min.time.before.relogin LONG 60000 per-broker
        Minimum time between two Kerberos logins, in milliseconds.
    sasl.kerberos.principal.to.local.rules LIST DEFAULT per-broker
        Rules that map Kerberos principals to short names; the first that matches applies.
    sasl.kerberos.service.name STRING null per-broker
        The Kerberos principal name of the brokers.
    sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 per-broker
        Random fraction of the time until a ticket is renewed.
    sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 per-broker
        Fraction of a ticket's lifetime after which it is renewed.
    sasl.login.callback.handler.class CLASS null read-only
        The callback handler of the login.
    sasl.login.class CLASS null read-only
        The class that logs in.
    sasl.login.connect.timeout.ms INT null read-only
        Timeout for connecting to the identity provider.
    sasl.login.read.timeout.ms INT null read-only
        Timeout for a response of the identity provider.
    sasl.login.refresh.buffer.seconds SHORT 300 per-broker
        Minimum time before its expiry at which a credential is refreshed.
    sasl.login.refresh.min.period.seconds SHORT 60 per-broker
        Minimum time between two refreshes of a credential.
    sasl.login.refresh.window.factor DOUBLE 0.8 per-broker
        Fraction of a credential's lifetime after which it is refreshed.
    sasl.login.refresh.window.jitter DOUBLE 0.05 per-broker
        Random fraction of the time until a credential is refreshed.
    sasl.login.retry.backoff.max.ms LONG 10000 read-only
        Maximum wait between two attempts to reach the identity provider.
    sasl.login.retry.backoff.ms LONG 100 read-only
        First wait between two attempts to reach the identity provider; it doubles each time.
    sasl.oauthbearer.assertion.algorithm STRING RS256 read-only ES256|RS256~
        The algorithm that signs the assertion of a token request.
    sasl.oauthbearer.assertion.claim.aud STRING null read-only
        The audience of the assertion.
    sasl.oauthbearer.assertion.claim.exp.seconds INT 300 read-only 0..86400
        Time after its creation at which the assertion expires.
    sasl.oauthbearer.assertion.claim.iss STRING null read-only
        The issuer of the assertion.
    sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false read-only
        Whether the assertion has a unique identifier.
    sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 read-only 0..3600
        Time before its creation from which the assertion is valid.
    sasl.oauthbearer.assertion.claim.sub STRING null read-only
        The subject of the assertion.
    sasl.oauthbearer.assertion.file STRING null read-only
        A file with a ready assertion.
    sasl.oauthbearer.assertion.private.key.file STRING null read-only
        The file of the private key that signs the assertion.
    sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null read-only
        The passphrase of that key.
    sasl.oauthbearer.assertion.template.file STRING null read-only
        A JSON file with further headers and claims of the assertion.
    sasl.oauthbearer.client.credentials.client.id STRING null read-only
        The client id of token requests with client credentials.
    sasl.oauthbearer.client.credentials.client.secret PASSWORD null read-only
        The client secret of token requests with client credentials.
    sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever read-only
        The class that gets tokens.
    sasl.oauthbearer.scope STRING null read-only
        The scope of token requests.
    sasl.oauthbearer.token.endpoint.url STRING null read-only
        The URL that issues tokens.
    """,  # noqa: E501
    without_effect="it belongs to Java classes, or to GSSAPI or tokens between brokers, which are not supported yet",
)

TLS_CONFIGS = table(
    """
    ssl.keymanager.algorithm STRING SunX509 per-broker
        The algorithm that selects the key of a connection.
    ssl.protocol STRING TLSv1.3 per-broker
        The protocol of the TLS context.
    ssl.provider STRING null per-broker
        The security provider for TLS.
    ssl.secure.random.implementation STRING null per-broker
        The source of random numbers for TLS.
    ssl.trustmanager.algorithm STRING PKIX per-broker
        The algorithm that validates certificates.
    """,
    without_effect="OpenSSL does TLS here, and ssl.enabled.protocols decides on its versions",
)

JAVA_CONFIGS = table(
    """
    principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder per-broker org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
        The class that determines a client's principal from its connection; another than Kafka's own is refused.
    security.providers STRING null read-only
        Classes that provide further algorithms.
    ssl.engine.factory.class CLASS null per-broker org.apache.kafka.common.security.ssl.DefaultSslEngineFactory
        The class that creates TLS engines; another than Kafka's own is refused.
    """,  # noqa: E501
    without_effect="it names Java classes, or belongs to them",
)

SECURITY_CONFIGS = (*OTHER_SASL_CONFIGS, *TLS_CONFIGS, *JAVA_CONFIGS)
