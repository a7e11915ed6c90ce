"""Access control lists: entries, filters, their image, and the rules of authorization (KIP-11, KIP-290, KIP-801).

    acl           an entry: who may or may not do what, from where, with which resources
    acl_filter    the filter of DescribeAcls and DeleteAcls
    acls_image    all entries of the cluster, by id and by resource
    authorizer    whether a principal may do an operation: `StandardAuthorizer`

`controller.commands.acls` adds and removes entries, `broker.authorization` applies the rules to requests.
"""
