"""Warnings about settings at start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.settings import Option, check_settings, read_option, read_properties
from broker.settings_warnings import warn_of_settings

LOCAL = "PLAINTEXT://127.0.0.1:9092"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    def warned(**settings: str) -> list[str]:
        settings = {"listeners": LOCAL} | settings
        named = {name.replace("_", "."): Option(text, "test") for name, text in settings.items()}
        warn_of_settings(check_settings(named))
        return [record.getMessage() for record in caplog.records]

    return warned


def test_valid_settings_cause_no_warning(warned: Callable[..., list[str]]) -> None:
    assert warned(log_retention_hours="5") == []


def test_zero_initial_rebalance_delay_is_logged_with_its_origin(
    warned: Callable[..., list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "broker")
    assert warned(group_initial_rebalance_delay_ms="3000") == []
    [shown] = warned(group_initial_rebalance_delay_ms="0")
    assert shown.startswith("group.initial.rebalance.delay.ms=0, as in the server.properties")


@pytest.mark.parametrize(
    "settings",
    [
        {
            "listeners": "PLAINTEXT://localhost:9092,LOCAL://[::1]:9093",
            "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOCAL:PLAINTEXT",
        },
        {"listeners": "SASL_SSL://:9092", "security_inter_broker_protocol": "SASL_SSL"},
        {"listeners": "SSL://:9092", "security_inter_broker_protocol": "SSL", "ssl_client_auth": "required"},
        {
            "listeners": "SSL://:9092",
            "security_inter_broker_protocol": "SSL",
            "listener_name_ssl_ssl_client_auth": "required",
        },
    ],
)
def test_listener_of_this_machine_or_with_authentication_causes_no_warning(
    warned: Callable[..., list[str]], settings: dict[str, str]
) -> None:
    assert warned(**settings) == []


def test_listeners_of_other_machines_without_authentication_share_one_warning(
    warned: Callable[..., list[str]],
) -> None:
    [shown] = warned(
        listeners="PLAINTEXT://:9092,SSL://192.0.2.1:9093,LOCAL://localhost:9094",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SSL:SSL,LOCAL:PLAINTEXT",
        ssl_client_auth="requested",
    )
    assert shown.startswith(
        "PLAINTEXT://:9092, SSL://192.0.2.1:9093: other machines can connect without authentication and do everything."
    )


def test_open_listener_with_an_authorizer_names_the_principal_of_its_clients(
    warned: Callable[..., list[str]],
) -> None:
    [shown] = warned(listeners="PLAINTEXT://:9092", authorizer_class_name=AUTHORIZER, super_users="User:admin")
    assert "without authentication, as User:ANONYMOUS" in shown


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({}, "without authentication. Set barnabas.metrics.token and barnabas.metrics.security.protocol=SSL"),
        ({"barnabas_metrics_security_protocol": "SSL"}, "without authentication"),
        (
            {"barnabas_metrics_token": "secret"},
            "sent without encryption, and can be read. Set barnabas.metrics.security",
        ),
        ({"barnabas_metrics_token": "secret", "barnabas_metrics_security_protocol": "SSL"}, None),
        ({"listener_name_metrics_ssl_client_auth": "required", "barnabas_metrics_security_protocol": "SSL"}, None),
    ],
)
def test_metrics_for_other_machines_need_a_token_or_certificate_and_encryption(
    warned: Callable[..., list[str]], settings: dict[str, str], remedy: str | None
) -> None:
    assert warned(barnabas_metrics_listener="127.0.0.1:9404", **settings) == []
    shown = warned(barnabas_metrics_listener=":9404", **settings)
    assert [remedy in line for line in shown if remedy is not None] == [True] * (remedy is not None)
    assert len(shown) == (remedy is not None)
    assert "secret" not in "".join(shown)


def test_tokens_are_not_forwarded_without_encryption(warned: Callable[..., list[str]]) -> None:
    voters = {"controller_quorum_voters": "1@a:1,2@b:1", "listeners": f"{LOCAL},CONTROLLER://localhost:1"}
    quorum = {"delegation_token_secret_key": "secret", "node_id": "1", "process_roles": "broker,controller", **voters}
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    assert warned(**quorum, listener_security_protocol_map=protocols) == []
    assert warned(delegation_token_secret_key="secret") == []
    [shown] = warned(**quorum)
    assert shown.startswith("delegation.token.secret.key: requests for delegation tokens are refused")


def test_unknown_settings_are_logged_with_suggestions(warned: Callable[..., list[str]]) -> None:
    [shown] = warned(log_retention_hour="5", nothing_like_it="5", retention_ms="5")
    assert "log.retention.hour (did you mean log.retention.hours?)" in shown
    assert "retention.ms (did you mean log.retention.ms?)" in shown
    assert "nothing.like.it" in shown
    assert "nothing.like.it (" not in shown


def test_unknown_settings_are_logged_with_file_and_line(caplog: pytest.LogCaptureFixture) -> None:
    text = f"listeners={LOCAL}\ngarbage line here\nlog.retention.hour=5\n"
    key, option = read_option("no.such=1")
    warn_of_settings(check_settings({**read_properties(text, "server.properties"), key: option}))
    assert caplog.messages == [
        "Ignoring unknown settings: server.properties, line 2: garbage; "
        "server.properties, line 3: log.retention.hour (did you mean log.retention.hours?); -D no.such"
    ]


def test_ineffective_security_settings_are_logged(warned: Callable[..., list[str]]) -> None:
    assert warned(sasl_kerberos_kinit_cmd="/usr/bin/kinit") == []  # the default
    [shown] = warned(
        ssl_provider="BC",
        listener_name_plaintext_sasl_login_class="Login",
        log_retention_hours="5",
    )
    assert shown == (
        "Security settings without effect: listener.name.plaintext.sasl.login.class, ssl.provider. "
        "Any client can connect and do everything, without authentication or encryption"
    )


def test_with_an_authorizer_clients_can_connect_but_not_do_everything(warned: Callable[..., list[str]]) -> None:
    [shown] = warned(authorizer_class_name=AUTHORIZER, ssl_provider="BC")
    assert shown == (
        "Security settings without effect: ssl.provider. Any client can connect, without authentication or encryption"
    )


def test_clients_do_not_connect_to_listeners_of_controllers(warned: Callable[..., list[str]]) -> None:
    [shown] = warned(
        listeners="SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        security_inter_broker_protocol="SSL",
        ssl_provider="BC",
        controller_quorum_voters="1@127.0.0.1:9093",
        node_id="1",
    )
    assert shown == "Security settings without effect: ssl.provider"


def test_settings_of_listeners_and_mechanisms_that_do_not_exist_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = {
        "listener.name.inside.max.connections": "without effect, because there is no listener INSIDE",
        "listener.name.SASL_PLAINTEXT.max.connections": "without effect, because names of listeners and mechanisms are "
        "lower case in settings",
        "listener.name.sasl_plaintext.PLAIN.sasl.jaas.config": "without effect, because names of listeners and "
        "mechanisms are lower case in settings",
        "listener.name.sasl_plaintext.sasl.jaas.config": "without effect; write it as "
        "listener.name.sasl_plaintext.MECHANISM.sasl.jaas.config",
        "sasl.jaas.config": "without effect; write it as listener.name.LISTENER.MECHANISM.sasl.jaas.config",
    }
    effective = [
        "listener.name.sasl_plaintext.max.connections",
        "listener.name.controller.max.connections",
        "listener.name.metrics.ssl.client.auth",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
    ]
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"} | dict.fromkeys((*names, *effective), "1")
    settings["listener.name.metrics.ssl.client.auth"] = "none"
    warn_of_settings(check_settings({name: Option(text, "test") for name, text in settings.items()}))
    assert sorted(caplog.messages) == sorted(f"{name}: {why}" for name, why in names.items())
    caplog.clear()
    settings["listener.security.protocol.map"] = "INSIDE:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SSL"
    warn_of_settings(check_settings({name: Option(text, "test") for name, text in settings.items()}))
    assert not [message for message in caplog.messages if "INSIDE" in message]  # of other nodes


def test_references_that_nothing_resolves_are_logged(warned: Callable[..., list[str]]) -> None:
    assert warned(
        ssl_key_password="${env:KEY}",
        listener_name_plaintext_ssl_key_password="${env:KEY}",
        ssl_principal_mapping_rules="RULE:^(.*)$/${env:1}/",
    ) == [
        f"{name} has ${{...}}, which is taken as it is, because config.providers is not set"
        for name in ("listener.name.plaintext.ssl.key.password", "ssl.key.password")
    ]


def test_ignored_policies_are_logged_with_what_that_means(warned: Callable[..., list[str]]) -> None:
    assert warned(
        alter_config_policy_class_name="com.example.Configs",
        client_quota_callback_class="com.example.Quotas",
        create_topic_policy_class_name="com.example.Topics",
    ) == [
        "alter.config.policy.class.name=com.example.Configs is a Java class, which cannot be loaded: changes of "
        "configs are not checked by it",
        "client.quota.callback.class=com.example.Quotas is a Java class, which cannot be loaded: quotas are only "
        "those that are set as configs",
        "create.topic.policy.class.name=com.example.Topics is a Java class, which cannot be loaded: new topics are "
        "not checked by it",
    ]


def test_super_users_between_commas_are_logged(warned: Callable[..., list[str]]) -> None:
    assert warned(authorizer_class_name=AUTHORIZER, super_users="User:CN=a,O=b;User:c") == []
    [shown] = warned(authorizer_class_name=AUTHORIZER, super_users="User:a, User:b;User:c")
    assert shown == "super.users: User:a, User:b is one principal, because semicolons separate them, not commas"


def test_super_users_without_an_authorizer_are_logged(warned: Callable[..., list[str]]) -> None:
    [shown] = warned(super_users="User:a", allow_everyone_if_no_acl_found="true")
    assert shown == (
        "allow.everyone.if.no.acl.found, super.users: without effect, because authorizer.class.name is not set: every "
        "client can do everything"
    )


def test_an_anonymous_super_user_is_logged(warned: Callable[..., list[str]]) -> None:
    assert warned(authorizer_class_name=AUTHORIZER, super_users="User:a") == []
    [shown] = warned(authorizer_class_name=AUTHORIZER, super_users="User:a;User:ANONYMOUS")
    assert shown == ("super.users has User:ANONYMOUS: every client that does not authenticate can do everything")


def test_replication_factor_above_one_on_single_broker_is_logged(warned: Callable[..., list[str]]) -> None:
    [shown] = warned(default_replication_factor="3")
    assert shown.startswith("default.replication.factor=3, but there is one broker")


def test_replication_factor_above_one_in_cluster_is_not_logged(warned: Callable[..., list[str]]) -> None:
    voters = "1@127.0.0.1:9093,2@127.0.0.1:9094"
    listeners = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    names = {"controller_quorum_voters": voters, "listeners": listeners, "controller_listener_names": "CONTROLLER"}
    assert warned(default_replication_factor="3", node_id="1", **names) == []
