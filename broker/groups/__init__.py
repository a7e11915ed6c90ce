"""Consumer groups: the classic group protocol and committed offsets.

Pure, driven with the time and a `Random`: `group` (members and states of one group), `joining`,
`rebalance`, `syncing` and `leaving` (the protocol's phases), `offsets` (what groups committed), `records`
(both as records of `__consumer_offsets`), `shard` (all of it for one partition of that topic), `timers` and
`partitioning`. `coordinator` performs what these decide; it alone knows the event loop and the log.
"""
