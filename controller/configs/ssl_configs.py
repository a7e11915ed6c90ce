"""Broker configs of TLS (Kafka: `SslConfigs`, `BrokerSecurityConfigs`).

`controller.configs.config_table` explains the columns. Each can be set for a single listener
(`controller.configs.listener_names`).
"""

from controller.configs.config_table import table

SSL_CONFIGS = table(
    """
    ssl.allow.dn.changes BOOLEAN false read-only
        Whether a certificate that replaces another while the broker runs can have another distinguished name.
    ssl.allow.san.changes BOOLEAN false read-only
        Whether a certificate that replaces another while the broker runs can lack some of its alternative names.
    ssl.cipher.suites LIST '' per-broker
        The allowed cipher suites; all if empty.
    ssl.client.auth STRING none per-broker required|requested|none
        Whether a client certificate is required, requested, or not requested.
    ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 per-broker
        The allowed versions of TLS.
    ssl.endpoint.identification.algorithm STRING https per-broker
        The check of a server's host name against its certificate; none if empty.
    ssl.key.password PASSWORD null per-broker
        The password of the private key.
    ssl.keystore.certificate.chain PASSWORD null per-broker
        The certificate chain in PEM format.
    ssl.keystore.key PASSWORD null per-broker
        The private key in PEM format.
    ssl.keystore.location STRING null per-broker
        The file with the private key and its certificates.
    ssl.keystore.password PASSWORD null per-broker
        The password of the key store file.
    ssl.keystore.type STRING JKS per-broker
        The format of the key store file.
    ssl.principal.mapping.rules STRING DEFAULT read-only
        Rules that map distinguished names of clients' certificates to short names; the first that matches applies.
    ssl.truststore.certificates PASSWORD null per-broker
        The trusted certificates in PEM format.
    ssl.truststore.location STRING null per-broker
        The file with the trusted certificates.
    ssl.truststore.password PASSWORD null per-broker
        The password of the trust store file.
    ssl.truststore.type STRING JKS per-broker
        The format of the trust store file.
    """
)
