"""Errors of the test kit."""


class ClusterError(RuntimeError):
    """A cluster cannot be started or used as requested; the message has the cause."""


class WaitTimeout(AssertionError):  # noqa: N818 - a failed expectation, which test runners report as a failure
    """What a test waits for has not happened in time; the message has what was seen instead."""
