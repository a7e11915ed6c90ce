"""Kafka's configurations of authentication, encryption and authorization, accepted without effect.

Columns as `controller.configs.rows` has them; `reserved` says what becomes of them.
"""

from __future__ import annotations

from controller.configs.config_table import table

SASL_CONFIGS = table(
    """
    sasl.client.callback.handler.class CLASS null read-only
        The class that answers for the broker where it logs in to others.
    sasl.enabled.mechanisms LIST GSSAPI per-broker
        The mechanisms by which clients may log in.
    sasl.jaas.config PASSWORD null per-broker
        The login module of a listener and its options, as a line of JAAS.
    sasl.kerberos.kinit.cmd STRING /usr/bin/kinit per-broker
        The program that gets a ticket of Kerberos.
    sasl.kerberos.min.time.before.relogin LONG 60000 per-broker
        The shortest time between two logins with Kerberos, in milliseconds.
    sasl.kerberos.principal.to.local.rules LIST DEFAULT per-broker
        Rules that make short names of Kerberos' principals; the first that fits counts.
    sasl.kerberos.service.name STRING null per-broker
        The name under which the brokers are known to Kerberos.
    sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 per-broker
        The part of the time until a ticket is renewed that is left to chance.
    sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 per-broker
        The part of a ticket's life after which it is renewed.
    sasl.login.callback.handler.class CLASS null read-only
        The class that answers the questions of a login module.
    sasl.login.class CLASS null read-only
        The class that logs in.
    sasl.login.connect.timeout.ms INT null read-only
        How long a connection to the provider of identities may take to begin.
    sasl.login.read.timeout.ms INT null read-only
        How long an answer of the provider of identities may take.
    sasl.login.refresh.buffer.seconds SHORT 300 per-broker
        How long before its end a credential is renewed at the latest.
    sasl.login.refresh.min.period.seconds SHORT 60 per-broker
        The shortest time between two renewals of a credential.
    sasl.login.refresh.window.factor DOUBLE 0.8 per-broker
        The part of a credential's life after which it is renewed.
    sasl.login.refresh.window.jitter DOUBLE 0.05 per-broker
        The part of the time until a credential is renewed that is left to chance.
    sasl.login.retry.backoff.max.ms LONG 10000 read-only
        The longest wait between two attempts at reaching the provider of identities.
    sasl.login.retry.backoff.ms LONG 100 read-only
        The first wait between two attempts at reaching the provider of identities; it doubles each time.
    sasl.mechanism.controller.protocol STRING GSSAPI read-only
        The mechanism by which brokers log in to controllers.
    sasl.mechanism.inter.broker.protocol STRING GSSAPI per-broker
        The mechanism by which brokers log in to each other.
    sasl.oauthbearer.assertion.algorithm STRING RS256 read-only ES256|RS256~
        The algorithm that signs the assertion with which a token is asked for.
    sasl.oauthbearer.assertion.claim.aud STRING null read-only
        The audience that the assertion names.
    sasl.oauthbearer.assertion.claim.exp.seconds INT 300 read-only 0..86400
        How long after its making the assertion ends to be valid.
    sasl.oauthbearer.assertion.claim.iss STRING null read-only
        The issuer that the assertion names.
    sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false read-only
        Whether the assertion has an identifier of its own.
    sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 read-only 0..3600
        How long before its making the assertion begins to be valid.
    sasl.oauthbearer.assertion.claim.sub STRING null read-only
        The subject that the assertion names.
    sasl.oauthbearer.assertion.file STRING null read-only
        A file with an assertion that was made elsewhere.
    sasl.oauthbearer.assertion.private.key.file STRING null read-only
        The file of the private key that signs the assertion.
    sasl.oauthbearer.assertion.private.key.passphrase PASSWORD null read-only
        The passphrase of that key.
    sasl.oauthbearer.assertion.template.file STRING null read-only
        A file of further headers and claims of the assertion, in JSON.
    sasl.oauthbearer.client.credentials.client.id STRING null read-only
        Who asks for a token by the grant of client credentials.
    sasl.oauthbearer.client.credentials.client.secret PASSWORD null read-only
        The secret of who asks for a token by the grant of client credentials.
    sasl.oauthbearer.clock.skew.seconds INT 30 read-only
        By how much the clocks of the broker and of the provider of identities may differ.
    sasl.oauthbearer.expected.audience LIST '' read-only
        Audiences of which a token has to name one.
    sasl.oauthbearer.expected.issuer STRING null read-only
        The issuer that a token has to name.
    sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000 read-only
        How often the keys that verify tokens are fetched anew.
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000 read-only
        The longest wait between two attempts at fetching the keys.
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100 read-only
        The first wait between two attempts at fetching the keys; it doubles each time.
    sasl.oauthbearer.jwks.endpoint.url STRING null read-only
        Where the keys that verify tokens are.
    sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever read-only
        The class that gets a token.
    sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator read-only
        The class that checks a token.
    sasl.oauthbearer.scope STRING null read-only
        What a token is asked to allow.
    sasl.oauthbearer.scope.claim.name STRING scope read-only
        The claim that says what a token allows.
    sasl.oauthbearer.sub.claim.name STRING sub read-only
        The claim that says whose a token is.
    sasl.oauthbearer.token.endpoint.url STRING null read-only
        Where tokens are asked for.
    sasl.server.callback.handler.class CLASS null read-only
        The class that checks what a client logs in with; a mechanism of a listener may have its own.
    sasl.server.max.receive.size INT 524288 read-only
        The most bytes that are read of a client that has not logged in yet.
    """,  # noqa: E501
    without_effect="authentication by SASL is not there yet",
)

TLS_CONFIGS = table(
    """
    principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder per-broker
        The class that says who a client is, by how it has connected.
    security.providers STRING null read-only
        Classes that bring further algorithms.
    ssl.allow.dn.changes BOOLEAN false read-only
        Whether a certificate may be replaced by one for another name while the broker runs.
    ssl.allow.san.changes BOOLEAN false read-only
        Whether a certificate may be replaced by one for other hosts while the broker runs.
    ssl.cipher.suites LIST '' per-broker
        The cipher suites that may be used; all that there are if empty.
    ssl.client.auth STRING none per-broker required|requested|none
        Whether clients have to show a certificate, may show one, or are not asked.
    ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 per-broker
        The versions of TLS that may be used.
    ssl.endpoint.identification.algorithm STRING https per-broker
        How the name of a server is compared with its certificate; not at all if empty.
    ssl.engine.factory.class CLASS null per-broker
        The class that makes the engines of TLS.
    ssl.key.password PASSWORD null per-broker
        The password of the private key.
    ssl.keymanager.algorithm STRING SunX509 per-broker
        The algorithm by which the key for a connection is chosen.
    ssl.keystore.certificate.chain PASSWORD null per-broker
        The chain of certificates itself, in PEM.
    ssl.keystore.key PASSWORD null per-broker
        The private key itself, in PEM.
    ssl.keystore.location STRING null per-broker
        The file with the key and its certificates.
    ssl.keystore.password PASSWORD null per-broker
        The password of the file with the key.
    ssl.keystore.type STRING JKS per-broker
        The format of the file with the key.
    ssl.principal.mapping.rules STRING DEFAULT read-only
        Rules that make short names of the names in clients' certificates; the first that fits counts.
    ssl.protocol STRING TLSv1.3 per-broker
        The protocol of the context that connections are made with.
    ssl.provider STRING null per-broker
        The security provider for TLS.
    ssl.secure.random.implementation STRING null per-broker
        The source of random numbers for TLS.
    ssl.trustmanager.algorithm STRING PKIX per-broker
        The algorithm by which a certificate is trusted or not.
    ssl.truststore.certificates PASSWORD null per-broker
        The trusted certificates themselves, in PEM.
    ssl.truststore.location STRING null per-broker
        The file with the trusted certificates.
    ssl.truststore.password PASSWORD null per-broker
        The password of the file with the trusted certificates.
    ssl.truststore.type STRING JKS per-broker
        The format of the file with the trusted certificates.
    """,
    without_effect="encryption by TLS is not there yet",
)

AUTHORIZATION_CONFIGS = table(
    """
    authorizer.class.name STRING '' read-only
        The class that says who may do what; everybody may do everything if empty.
    connection.failed.authentication.delay.ms INT 100 read-only 0..
        How long a connection that failed to log in is kept before it is closed.
    connections.max.reauth.ms LONG 0 read-only
        How long a login holds before the client has to log in again; for ever if 0.
    delegation.token.expiry.check.interval.ms LONG 3600000 read-only 1..
        How often expired delegation tokens are removed.
    delegation.token.expiry.time.ms LONG 86400000 read-only 1..
        How long a delegation token holds before it has to be renewed.
    delegation.token.max.lifetime.ms LONG 604800000 read-only 1..
        How long a delegation token can be renewed.
    delegation.token.secret.key PASSWORD null read-only
        The secret that delegation tokens are made with, the same on all brokers and controllers.
    early.start.listeners LIST null read-only
        Listeners that serve clients before the authorizer has read its rules.
    """,
    without_effect="logins, authorization and delegation tokens are not there yet",
)

SECURITY_CONFIGS = (*SASL_CONFIGS, *TLS_CONFIGS, *AUTHORIZATION_CONFIGS)
