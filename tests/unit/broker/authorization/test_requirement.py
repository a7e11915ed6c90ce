"""Requirements as rows of the route table have them."""

from __future__ import annotations

from broker.authorization.requirement import on_cluster, on_group, on_topics, on_transactional_id
from broker.routes import ROUTES
from controller.acls.acl import SUPPORTED_OPERATIONS, AclOperation, AclResourceType
from protocol.api import request_class
from protocol.fields import fields_of


def test_requirements_are_added() -> None:
    both = on_group(AclOperation.READ) + on_topics(AclOperation.WRITE, "topics.topic")
    assert [(one.operation, one.resource_type, one.names) for one in both] == [
        (AclOperation.READ, AclResourceType.GROUP, "group_id"),
        (AclOperation.WRITE, AclResourceType.TOPIC, "topics.topic"),
    ]
    [cluster] = on_cluster(AclOperation.ALTER, or_on_cluster=AclOperation.CREATE)
    assert (cluster.names, cluster.or_on_cluster) == ("", AclOperation.CREATE)
    assert on_transactional_id(AclOperation.WRITE)[0].names == "transactional_id"


def test_every_operation_of_the_table_exists_for_its_resource() -> None:
    for key, route in ROUTES.items():
        for one in (*route.requires, *route.requires_on_controller):
            assert one.operation in SUPPORTED_OPERATIONS[one.resource_type], key


def test_requests_have_the_fields_by_which_guards_are_made() -> None:
    for key, route in ROUTES.items():
        if route.guard:
            continue
        fields = {field.name: field for field in fields_of(request_class(key))}
        for one in route.requires:
            if one.names:
                name, _, attribute = one.names.partition(".")
                assert fields[name].is_list == bool(attribute or name.endswith("s")), key
                struct = fields[name].struct
                assert not attribute or (
                    struct is not None and attribute in {each.name for each in fields_of(struct)}
                ), key
