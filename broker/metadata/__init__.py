"""This node of the quorum at work: the metadata log, its snapshots, and the image of what is committed."""
