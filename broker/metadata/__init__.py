"""The metadata of a node: Raft, the metadata log and its snapshots, the image, and requests to the controller."""
