from __future__ import annotations

import pytest

from broker.security.jaas import parse_jaas
from broker.security.security_error import SecurityError

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
    with pytest.raises(SecurityError, match=message) as refused:
        parse_jaas("setting", text)
    assert "secret" not in str(refused.value)
