from __future__ import annotations

import pytest

from controller.configs.definition import ConfigError
from controller.configs.jaas import check_jaas, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_are_read_with_quotes_escapes_and_over_lines() -> None:
    text = f'{MODULE} required\n username="a" password="p\\"=;\\\\" user_a=\'single "quoted"\' user_b=bare;'
    module = parse_jaas("setting", text)
    assert module.name == MODULE
    assert module.options == {"username": "a", "password": 'p"=;\\', "user_a": 'single "quoted"', "user_b": "bare"}


def test_module_may_have_no_options() -> None:
    assert parse_jaas("setting", f"{MODULE} REQUIRED;").options == {}


@pytest.mark.parametrize("flag", ["required", "requisite", "sufficient", "optional"])
def test_each_flag_is_accepted_and_blanks_around_the_text_are_ignored(flag: str) -> None:
    assert parse_jaas("setting", f" {MODULE} {flag} a=b;\n").options == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "with ; at the end"),
        (f"{MODULE};", "with ; at the end"),
        (f'{MODULE} required user_a="secret"', "with ; at the end"),
        (f"{MODULE} secret;", "another word than required"),
        (f'{MODULE} required user_a "secret";', "not of the form"),
        (f'{MODULE} required user_a="secret" user_b;', "not of the form"),
        (f'{MODULE} required user_a="secret;', "is a quotation mark missing"),
        (f'{MODULE} required; {MODULE} required a="secret";', "not of the form"),
    ],
)
def test_invalid_text_is_refused_without_its_secrets(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        parse_jaas("setting", text)
    assert "secret" not in str(refused.value)


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("listener.name.a.plain.sasl.jaas.config", f'{MODULE} required user_a="p";', ""),
        ("listener.name.a.scram-sha-512.sasl.jaas.config", f"{SCRAM} required;", ""),
        ("listener.name.a.plain.sasl.jaas.config", "this is no jaas", "plain.sasl.jaas.config: write it as"),
        ("listener.name.a.plain.sasl.jaas.config", f"{SCRAM} required;", f"the login module of PLAIN is {MODULE}"),
        ("listener.name.a.scram-sha-256.sasl.jaas.config", f"{MODULE} required;", "login module of SCRAM-SHA-256 is"),
        # A mechanism whose module the broker does not use, and none.
        ("listener.name.a.oauthbearer.sasl.jaas.config", "com.example.Login required;", ""),
        ("listener.name.a.oauthbearer.sasl.jaas.config", "com.example.Login", "write it as"),
        ("listener.name.a.sasl.jaas.config", "com.example.Login required;", ""),
        # Settings that no listener reads.
        ("sasl.jaas.config", "secret", ""),
        ("listener.name.a.sasl.enabled.mechanisms", "PLAIN", ""),
    ],
)
def test_settings_of_listeners_are_checked(name: str, text: str, message: str) -> None:
    if not message:
        check_jaas({name: text})
        return
    with pytest.raises(ConfigError, match=message):
        check_jaas({"max.connections": "7", name: text})
