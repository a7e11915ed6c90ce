"""Errors of the test kit."""


class ClusterError(RuntimeError):
    """A cluster cannot be started or used as requested; the message has the cause."""


class SimulationFailure(AssertionError):  # noqa: N818 - what the application has raised, as text
    """A simulated application has failed with an exception that cannot be pickled; the message is its traceback."""


class WaitTimeout(AssertionError):  # noqa: N818 - a failed expectation, which test runners report as a failure
    """What a test waits for has not happened in time; the message has what was seen instead."""
