"""Plain counters of this process, incremented where events happen."""


class Metrics:
    """Counts since the start."""

    __slots__ = (
        "connections_accepted",
        "connections_refused",
        "handler_failures",
        "received_bytes",
        "requests",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.connections_accepted = 0
        self.connections_refused = 0
        self.handler_failures = 0
        self.received_bytes = 0
        self.requests = 0
        self.sent_bytes = 0

    def __str__(self) -> str:
        return ", ".join(f"{name} {getattr(self, name)}" for name in self.__slots__)
