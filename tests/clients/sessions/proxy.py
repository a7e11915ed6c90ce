"""A proxy that records every frame between clients and a broker, in order."""

import asyncio
from contextlib import suppress

from tests.clients.sessions.transcript import ANSWERED, CLOSED, SENT, Event


class RecordingProxy:
    """Listens on ``address`` once it is opened; the broker must advertise this address, or clients bypass the proxy."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.bootstrap = ""
        self.address = ""
        self._connections = 0
        self._open: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self._connections += 1
        number = self._connections
        host, _, port = self.bootstrap.rpartition(":")
        broker, to_broker = await asyncio.open_connection(host, int(port))
        try:
            answers = asyncio.create_task(self._pass_on(broker, to_client, number, ANSWERED))
            await self._pass_on(client, to_broker, number, SENT)
            self.events.append(Event(number, CLOSED))
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
        finally:
            self._open.discard(task)
            for writer in (to_broker, to_client):
                writer.close()

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, number: int, kind: str
    ) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = await source.readexactly(4)
                frame = await source.readexactly(int.from_bytes(size, "big"))
                self.events.append(Event(number, kind, frame))
                target.write(size + frame)
                await target.drain()
