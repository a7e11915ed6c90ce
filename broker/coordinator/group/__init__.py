"""Consumer groups: the classic group protocol and committed offsets.

The rules are pure; time and a `Random` are passed in. `classic_group` has the members and states of one group; `join`,
`rebalance`, `sync` and `leave` the phases of the protocol; `context` the requests, responses and effects they use;
`offsets` the committed offsets; `records` the format of both in `__consumer_offsets`; `shard` all groups and offsets of
one partition of that topic; `timers` the deadlines.

Three modules perform what the rules decide: `runtime.partition_log` is a shard's log, `runtime.shard_host` writes and
responds for one shard, and `group_coordinator` hosts the shards of the partitions led here. `coordinator_config` builds
it from the broker.
"""
