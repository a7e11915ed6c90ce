"""The image of access control entries: found by id, pattern and resource, changed by copies."""

from __future__ import annotations

import pytest

from controller.acls.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from controller.acls.acl_filter import AclFilter
from controller.acls.acls_image import AclsImage
from protocol.errors import InvariantError
from tests.unit.controller.acls.entries import acl, acl_id, image_of

EVERYTHING = AclFilter(AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)


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
    assert set(before.by_principal) == {"User:a", "User:b"}
    assert set(after.by_principal) == {"User:b"}
    assert acl("allow User:a READ TOPIC:t") in before
    assert acl("allow User:a READ TOPIC:t") not in after


def test_entries_of_other_principals_stay_the_same_object() -> None:
    before = image_of("allow User:a READ TOPIC:t", "allow User:b READ TOPIC:t")
    builder = before.change()
    builder.add(acl_id(2), acl("allow User:b READ TOPIC:u"))
    after = builder.build()
    assert after.of("User:a") is before.of("User:a")
    assert after.of("User:b") is not before.of("User:b")
    assert [list(after.of("User:c")), len(after.of("User:b"))] == [[], 2]


def test_an_entry_can_be_removed_and_added_again_in_one_batch() -> None:
    builder = image_of("allow User:a READ TOPIC:t").change()
    builder.remove(acl_id(0))
    builder.add(acl_id(1), acl("allow User:a READ TOPIC:t"))
    assert list(builder.build().by_id) == [acl_id(1)]


def test_an_empty_filter_matches_every_entry() -> None:
    image = image_of("allow User:a READ TOPIC:t", "deny User:b READ GROUP:g*")
    assert [found for found, _ in image.matching(EVERYTHING)] == [acl_id(0), acl_id(1)]
