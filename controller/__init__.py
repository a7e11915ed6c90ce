"""The cluster's metadata: Raft, the image, and the commands that change it. Pure: no I/O, no clock, no event loop."""
