"""Definitions of the messages of delegation tokens, which kafka-python lacks, in the format that it reads."""
