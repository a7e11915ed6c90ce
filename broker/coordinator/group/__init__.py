"""Consumer groups: the classic group protocol and committed offsets.

The rules are pure; time and a `Random` are passed in. `classic_group` has the members and states of one group; `join`,
`rebalance`, `sync` and `leave` the phases of the protocol; `context` the requests, responses and effects they use;
`offsets` the committed offsets; `records` the format of both in `__consumer_offsets`; `shard` all groups and offsets of
one partition of that topic. `group_coordinator` maps the group APIs to operations on these shards, which
`broker.coordinator.runtime` loads, writes and answers; `construction` builds it from the broker.
"""
