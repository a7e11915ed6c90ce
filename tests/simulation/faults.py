"""What goes wrong: one thing after the other, each of the seed's choice, each to be over some time later."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.simulation.cluster import Host, World

_LARGEST_JUMP_MS = 20 * 60 * 1000


class Faults:
    """Breaks hosts, disks, clocks and links."""

    def __init__(self, world: World, clients: Sequence[str], usual_pause_s: float) -> None:
        self._world = world
        self._clients = clients
        self._pause_s = usual_pause_s
        self._random = world.random("faults")
        self._kinds: tuple[tuple[Callable[[Host], Coroutine[Any, Any, None]], int], ...] = (
            (self._kill, 4),
            (self._cut_power, 4),
            (self._stop, 1),
            (self._pause, 2),
            (self._jump, 1),
            (self._fail_disk, 2),
            (self._fill_disk, 2),
            (self._partition, 4),
            (self._reset, 4),
            (self._slow, 2),
        )

    async def run(self) -> None:
        kinds, weights = zip(*self._kinds, strict=True)
        while not self._world.stopping:
            await asyncio.sleep(self._random.expovariate(1 / self._pause_s))
            host = self._random.choice(self._world.hosts)
            [kind] = self._random.choices(kinds, weights)
            self._world.count(f"fault: {kind.__name__.strip('_').replace('_', ' ')}")
            await kind(host)
            if host.state in ("off", "failed"):
                await self._while_s(0.3)
                self._revive(host)

    async def heal(self) -> None:
        """Let everything work again, and wait for the brokers."""
        self._world.network.heal()
        for host in self._world.hosts:
            host.disk.mend()
            host.resume()
            if host.faulty:
                host.crash()
        while not all(host.state == "up" for host in self._world.hosts):
            for host in self._world.hosts:
                self._revive(host)
            await asyncio.sleep(0.1)

    def _revive(self, host: Host) -> None:
        if host.state in ("off", "failed"):
            if host.state == "failed":
                host.disk.mend()
            host.start()

    async def _while_s(self, usual_s: float) -> None:
        await asyncio.sleep(self._random.expovariate(1 / usual_s))

    async def _kill(self, host: Host) -> None:
        host.crash()

    async def _cut_power(self, host: Host) -> None:
        host.crash(power=True)

    async def _stop(self, host: Host) -> None:
        host.stop()
        while host.state == "stopping":
            await asyncio.sleep(0.1)

    async def _pause(self, host: Host) -> None:
        host.pause()
        await self._while_s(1.0)
        host.resume()

    async def _jump(self, host: Host) -> None:
        host.clock_offset_ms = self._random.randint(-_LARGEST_JUMP_MS, _LARGEST_JUMP_MS)

    async def _fail_disk(self, host: Host) -> None:
        """Let one call fail; what failed once is given up, and works again for the next process."""
        kind = self._random.choice(("pwrite", "sync", "sync_dir", "pread", "rename", "create", "truncate"))
        host.faulty = True
        host.disk.fail(kind, errno.EIO, after=self._random.choice((0, 0, 3, 20)))
        await self._while_s(1.0)
        host.disk.mend()
        host.resume()
        host.crash(power=self._random.random() < 0.3)

    async def _fill_disk(self, host: Host) -> None:
        host.faulty = True
        host.disk.full = True
        await self._while_s(0.5)
        host.disk.full = False

    async def _partition(self, host: Host) -> None:
        """Cut one or both directions between a host and some of those that talk with it."""
        network, random = self._world.network, self._random
        others = [*self._clients, *(other.name for other in host.cluster if other is not host)]
        links = []
        for other in random.sample(others, random.randint(1, len(others))):
            pair = [network.link(other, host.name), network.link(host.name, other)]
            links += random.choice((pair, pair[:1], pair[1:]))
        for link in links:
            link.up = False
        await self._while_s(random.choice((0.3, 2.0)))
        for link in links:
            link.up = True

    async def _reset(self, host: Host) -> None:
        network = self._world.network
        for transport in list(network.transports.values()):
            if transport.loop is host.loop and self._random.random() < 0.5:
                network.reset(transport)

    async def _slow(self, host: Host) -> None:
        network, client = self._world.network, self._random.choice(self._clients)
        network.slow[client] = (self._random.choice((1, 50, 1000)), self._random.choice((0.001, 0.02)))
        await self._while_s(0.5)
        network.slow.pop(client, None)
