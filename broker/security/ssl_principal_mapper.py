"""Names of clients from the subjects of their certificates, by `ssl.principal.mapping.rules` (KIP-371).

    RULE:^CN=(.*?),.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole subject applies; `DEFAULT` is the subject itself. A replacement refers to
groups as `$1`; `L` and `U` convert the result. Kafka: `SslPrincipalMapper`, whose patterns are Java's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")


class MappingRuleError(ValueError):
    """A rule is invalid; the message has the rule and the reason."""


class NoMatchingRuleError(ValueError):
    """No rule applies to the subject of a certificate."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    parts: tuple[str | int, ...]
    """The replacement: texts, and numbers of groups."""
    convert: Callable[[str], str]


class SslPrincipalMapper:
    """The rules of one listener."""

    def __init__(self, rules: str) -> None:
        """Parse the rules; `MappingRuleError` if one is invalid."""
        self._rules: list[_Rule | None] = []  # None: DEFAULT
        for match in _SPLITTER.finditer(rules.strip()):
            rule, default, pattern, replacement, case, rest = match.groups()
            if default is not None:
                self._rules.append(None)
            elif pattern is not None:
                self._rules.append(_parsed(rule, pattern, replacement, case))
            elif rest:
                raise MappingRuleError(f"invalid rule {rest!r}; write DEFAULT or RULE:pattern/replacement/[LU]")

    def name_of(self, subject: str) -> str:
        """Return the client's name; `NoMatchingRuleError` if no rule applies."""
        for rule in self._rules:
            if rule is None:
                return subject
            if rule.pattern.fullmatch(subject):
                return rule.convert(rule.pattern.sub(lambda found, rule=rule: _replaced(found, rule), subject))  # type: ignore[misc]
        raise NoMatchingRuleError(f"no rule of ssl.principal.mapping.rules applies to {subject!r}")


def _parsed(rule: str, pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern))
    except re.error as error:
        raise MappingRuleError(f"invalid rule {rule!r}: {error}") from None
    convert: Callable[[str], str] = {"L": str.lower, "U": str.upper}.get(case, str)
    return _Rule(compiled, _parts(rule, replacement, compiled.groups), convert)


def _parts(rule: str, replacement: str, groups: int) -> tuple[str | int, ...]:
    """Return the parts of a replacement; a reference to a group beyond `groups` is text, as in Kafka."""
    parts: list[str | int] = []
    at = 0
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\":
            parts.append(replacement[at : at + 1])
            at += 1
        elif char == "$":
            digits = re.match(r"\d*", replacement[at:]).group()  # type: ignore[union-attr]  # it matches anything
            if not digits or (not groups and digits[0] != "0"):
                raise MappingRuleError(f"invalid rule {rule!r}: $ must be followed by the number of a group")
            size = len(digits)
            while size > 1 and int(digits[:size]) > groups:
                size -= 1
            parts.append(int(digits[:size]) if int(digits[:size]) <= groups else f"${digits[:size]}")
            at += size
        else:
            parts.append(char)
    return tuple(parts)


def _replaced(found: re.Match[str], rule: _Rule) -> str:
    return "".join(part if isinstance(part, str) else found.group(part) or "" for part in rule.parts)
