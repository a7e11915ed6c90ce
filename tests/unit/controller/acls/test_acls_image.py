"""The image of access control entries: found by id, pattern and resource, changed by copies."""

from __future__ import annotations

import pytest

from controller.acls.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from controller.acls.acl_filter import AclFilter
from controller.acls.acls_image import AclPattern, AclsImage, pattern_of
from protocol.errors import InvariantError
from tests.unit.controller.acls.entries import acl, acl_id, image_of

EVERYTHING = AclFilter(AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)


def covering(image: AclsImage, name: str) -> list[str]:
    """Return the names of the patterns that cover a topic."""
    return [
        next(iter(of_principal)).resource_name
        for entries in image.covering(AclResourceType.TOPIC, name)
        for of_principal in entries.values()
    ]


def test_patterns_that_cover_a_name_are_its_own_the_wildcard_and_all_its_prefixes() -> None:
    names = ("a*", "app*", "app-b*", "app-c*", "b*", "app-cart", "*", "")
    image = image_of(*(f"allow User:a READ TOPIC:{name}" for name in names if name))
    assert covering(image, "app-cart") == ["app-cart", "*", "app-c", "app", "a"]
    assert covering(image, "app-a") == ["*", "app", "a"]
    assert covering(image, "apple") == ["*", "app", "a"]
    assert covering(image, "app-c") == ["*", "app-c", "app", "a"]
    assert covering(image, "ap") == ["*", "a"]
    assert covering(image, "c") == ["*"]
    assert covering(image, "*") == ["*"]
    assert image.covering(AclResourceType.GROUP, "app-cart") == []


def test_an_id_or_an_equal_entry_cannot_be_added_twice() -> None:
    image = image_of("allow User:a READ TOPIC:t")
    with pytest.raises(InvariantError, match="twice"):
        image.change().add(acl_id(0), acl("allow User:b READ TOPIC:t"))
    with pytest.raises(InvariantError, match="twice"):
        image.change().add(acl_id(1), acl("allow User:a READ TOPIC:t"))


def test_an_entry_that_does_not_exist_cannot_be_removed() -> None:
    with pytest.raises(InvariantError, match="which does not exist"):
        AclsImage().change().remove(acl_id(1))


def test_a_changed_image_leaves_the_earlier_one_as_it_was() -> None:
    before = image_of("allow User:a READ TOPIC:t", "deny User:b READ TOPIC:t")
    builder = before.change()
    builder.remove(acl_id(0))
    builder.add(acl_id(2), acl("allow User:b ALL TOPIC:t"))
    after = builder.build()
    assert [len(before), len(after)] == [2, 2]
    assert before == image_of("allow User:a READ TOPIC:t", "deny User:b READ TOPIC:t")
    assert before != after
    pattern = pattern_of(acl("allow User:a READ TOPIC:t"))
    assert set(before.of(pattern)) == {"User:a", "User:b"}
    assert set(after.of(pattern)) == {"User:b"}
    assert acl("allow User:a READ TOPIC:t") in before
    assert acl("allow User:a READ TOPIC:t") not in after


def test_a_pattern_without_entries_covers_nothing() -> None:
    builder = image_of("allow User:a READ TOPIC:t*", "allow User:a READ TOPIC:t").change()
    builder.remove(acl_id(0))
    builder.remove(acl_id(1))
    image = builder.build()
    assert covering(image, "t") == []
    assert image == AclsImage()
    assert image.patterns("User:a") == ()


def test_an_entry_can_be_removed_and_added_again_in_one_batch() -> None:
    builder = image_of("allow User:a READ TOPIC:t").change()
    builder.remove(acl_id(0))
    builder.add(acl_id(1), acl("allow User:a READ TOPIC:t"))
    assert list(builder.build().by_id) == [acl_id(1)]


def test_patterns_are_found_by_principal() -> None:
    image = image_of("allow User:a READ TOPIC:t", "allow User:a READ GROUP:g*", "allow User:b READ TOPIC:t")
    assert list(image.patterns("User:a")) == [
        AclPattern(AclResourceType.TOPIC, PatternType.LITERAL, "t"),
        AclPattern(AclResourceType.GROUP, PatternType.PREFIXED, "g"),
    ]
    assert list(image.patterns("User:c")) == []


def test_an_empty_filter_matches_every_entry() -> None:
    image = image_of("allow User:a READ TOPIC:t", "deny User:b READ GROUP:g*")
    assert [found for found, _ in image.matching(EVERYTHING)] == [acl_id(0), acl_id(1)]
