from __future__ import annotations

import pytest

from broker.security.ssl_principal_mapper import MappingRuleError, NoMatchingRuleError, SslPrincipalMapper


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=duke,OU=ServiceUsers,O=Org", "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L, DEFAULT", "CN=Duke,OU=SME,O=Org", "duke@sme"),
        ("RULE:^cn=(.*?),.*$/$1/U", "cn=duke,ou=x", "DUKE"),
        ("RULE:^CN=(.*?),.*$/$1/, DEFAULT", "O=x,CN=a", "O=x,CN=a"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "O=x,CN=Host.1", "host.1"),
        ("RULE:^CN=(.*)$/$1$2\\$1/", "CN=a", "a$2$1"),
        ("RULE:^CN=(?<who>.*)$/$1-$0/", "CN=a", "a-CN=a"),
        ("RULE:^CN=a\\/b$/x\\/y/", "CN=a/b", "x/y"),
        ("RULE:^CN=(.*?)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=" + "(.)" * 12 + "$/$12$1/", "CN=abcdefghijkl", "la"),
        ("RULE:^CN=.*$/$0/U", "CN=a", "CN=A"),
        ("RULE:^CN=(x)?(.*)$/$1$2/", "CN=a", "a"),
        ("RULE:CN=(\\w+)/$1/, RULE:CN=(\\w+),O=evil/$1 of evil/", "CN=admin,O=evil", "admin of evil"),
    ],
)
def test_first_matching_rule_names_the_client(rules: str, subject: str, name: str) -> None:
    assert SslPrincipalMapper(rules).name_of(subject) == name


def test_subject_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(NoMatchingRuleError, match=r"no rule of ssl.principal.mapping.rules applies to 'O=x'"):
        SslPrincipalMapper("RULE:^CN=(.*)$/$1/").name_of("O=x")


@pytest.mark.parametrize("subject", ["CN=admin,O=evil", "O=evil,CN=admin", "CN=admin\n"])
def test_rule_matches_the_whole_subject_without_anchors_too(subject: str) -> None:
    with pytest.raises(NoMatchingRuleError):
        SslPrincipalMapper("RULE:CN=(\\w+)/$1/").name_of(subject)


@pytest.mark.parametrize("rules", ["RULE:^CN=(.*$/$1/", "deFAULT", "RULE:^CN=.*$/$1/", "RULE:^CN=(.*)$/$/", "RULE:a"])
def test_invalid_rule_is_refused(rules: str) -> None:
    with pytest.raises(MappingRuleError, match="invalid rule"):
        SslPrincipalMapper(rules)
