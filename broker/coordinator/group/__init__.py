"""Consumer groups: the classic group protocol and committed offsets.

The rules are pure, driven with the time and a `Random`: `group` (members and states of one group); `joining`,
`rebalance`, `syncing` and `leaving` (the protocol's phases), which speak in the terms of `turn`; `offsets` (what groups
committed); `records` (both as records of `__consumer_offsets`); `shard` (all of it, for one partition of that topic);
`timers` and `partitioning`.

Three modules perform what the rules decide: `journal` is a shard's log, `host` writes and answers for one shard, and
`coordinator` hosts the shards of the partitions that this broker leads; `opening` makes it, of the broker's parts.
"""
