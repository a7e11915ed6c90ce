"""Data directories that take no new partitions (KIP-1066): those of `cordoned.log.dirs`, told to the controller.

The setting names paths, `*` for all of them, and can be altered while the broker runs. The controller, which places
partitions, knows directories by their ids. A path that is none of `log.dirs` means nothing. What is in a cordoned
directory stays there and is served as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from controller.commands.brokers import cordon_directories
from protocol.errors import KafkaError

if TYPE_CHECKING:
    import asyncio

    from broker.live_settings import LiveSettings
    from broker.raft_driver import RaftDriver
    from storage.log_directory import LogDirectory

_SETTING = "cordoned.log.dirs"
_ALL = "*"

_log = logging.getLogger("broker.controller")


class Cordons:
    """The cordons of a broker that is registered in `broker_epoch`."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: int,
        directories: Iterable[LogDirectory],
        *,
        live: LiveSettings,
        controller: RaftDriver,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._directories = tuple(directories)
        self._live = live
        self._controller = controller
        self._loop = loop
        # A task is only weakly held by the loop.
        self._telling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Tell the controller what is cordoned now, and from now on what changes. Errors as `RaftDriver.submit`."""
        await self._tell()
        self._live.follow((_SETTING,), self._changed)

    def _changed(self) -> None:
        self._telling = self._loop.create_task(self._tell_again())

    async def _tell_again(self) -> None:
        try:
            await self._tell()
        except KafkaError as error:
            _log.warning("The controller does not know yet which directories are cordoned: %s", error)

    async def _tell(self) -> None:
        cordoned = cordoned_ids(self._directories, self._live[_SETTING])
        await self._controller.submit(
            partial(cordon_directories, broker_id=self._node_id, broker_epoch=self._broker_epoch, directories=cordoned)
        )


def cordoned_ids(directories: Iterable[LogDirectory], named: Sequence[str]) -> tuple[bytes, ...]:
    """Return the ids of the directories that are `named` by their paths."""
    paths = {path.rstrip("/") for path in named}
    return tuple(sorted(one.directory_id for one in directories if _ALL in named or one.path in paths))
