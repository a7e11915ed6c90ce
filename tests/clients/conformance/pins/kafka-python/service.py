"""The part of kafka-python's test services that an external broker needs: its address.

kafka-python's own ``test/service.py`` starts Apache Kafka from a distribution, and is not part of its releases.
"""


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Do nothing: the broker runs already."""

    def close(self) -> None:
        """Do nothing: the owner of the broker stops it."""

    def dump_logs(self) -> None:
        """Do nothing: the log is where the broker was started."""

    def wait_for(self, pattern: str, timeout: float = 30) -> None:
        """Do nothing: the broker is ready, whatever it has logged."""


class SpawnedService:
    def __init__(self, *_args: object, **_options: object) -> None:
        raise RuntimeError("these tests run on a broker that is there already")
