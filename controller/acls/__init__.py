"""Access control lists: entries, filters, their image, and the rules of authorization (KIP-11, KIP-290, KIP-801).

    acl           an entry: principal, host, operation, resource, and whether it is allowed or denied
    acl_filter    the filter of DescribeAcls and DeleteAcls
    acls_image    all entries of the cluster, by id and by principal
    names         sets of resource names, given by patterns
    authorizer    whether a principal may do an operation: `StandardAuthorizer`

`controller.commands.acls` adds and removes entries, `broker.authorization` applies the rules to requests.
"""
