"""What kafka-python's tests ask of a broker that somebody else has started: nothing but its address.

Its own ``test/service.py`` starts Apache Kafka from a distribution, and is not part of what it publishes.
"""


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """The broker runs already."""

    def close(self) -> None:
        """Whoever started the broker stops it."""

    def dump_logs(self) -> None:
        """The broker's log is where it was started."""

    def wait_for(self, pattern: str, timeout: float = 30) -> None:
        """It is ready, whatever it has written."""


class SpawnedService:
    def __init__(self, *_args: object, **_options: object) -> None:
        raise RuntimeError("these tests run on a broker that is there already")
