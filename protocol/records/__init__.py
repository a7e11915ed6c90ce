"""One file a kind of record that is stored in logs: metadata, offsets, control records, snapshots."""
