"""The parts of a controller (Kafka: `ControllerServer`): periodic tasks, registration, and what its handlers use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker.dispatch import NO_CONNECTION, WithErrors, handle_locally
from broker.metadata.controller_registration import ControllerRegistrationManager
from broker.metadata.controller_tasks import ControllerTasks
from broker.metadata.registration_request import controller_registration
from broker.metadata.start_group import StartGroup
from broker.shared_server import RoleServer, SharedServer

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.quotas.controller_mutations import ControllerMutationQuotaManager, MutationQuota


class ControllerServer(RoleServer):
    """A voter of the quorum; `tasks` run while it is the active controller."""

    def __init__(
        self,
        shared: SharedServer,
        broker_epoch: Callable[[], int],
        start_group: StartGroup | None = None,
        with_errors: WithErrors | None = None,
    ) -> None:
        """Run nothing before `start`; `broker_epoch` returns the epoch of this node's own broker, -1 without one."""
        super().__init__(shared, "controller", shared.controller_channel(partial(handle_locally, self)), with_errors)
        self.tasks = ControllerTasks(
            self.raft,
            self.settings,
            self.loop,
            now_ms=shared.now_ms,
            broker_epoch=broker_epoch,
            has_exited=shared.node_clients.has_exited,
            start_group=start_group,
        )
        self.mutation_quotas: ControllerMutationQuotaManager | None = None
        """What clients used of their quotas of controller mutations; created with the first request of one."""
        self._registration = ControllerRegistrationManager(self.raft, self.controller_channel.call, self.loop)

    def start(self) -> None:
        """Run the periodic tasks while this node leads, and register it if it is one of several nodes."""
        self.tasks.begin()
        if self.settings.voters:
            self._registration.begin(controller_registration(self.settings, self.random.randbytes(16), self.endpoints))

    def mutation_quota(self, context: RequestContext) -> MutationQuota:
        """Return the quota of a request that creates or deletes partitions; this node's own requests are unlimited."""
        from broker.monitoring.rate import SampleWindow
        from broker.quotas.controller_mutations import UNLIMITED, ControllerMutationQuotaManager

        quotas = self.image.client_quotas
        if not quotas or context.connection_id == NO_CONNECTION:
            return UNLIMITED
        if self.mutation_quotas is None:
            settings = self.settings
            window = SampleWindow(
                settings["controller.quota.window.num"], 1000 * settings["controller.quota.window.size.seconds"]
            )
            self.mutation_quotas = ControllerMutationQuotaManager(window, lambda: 1000 * self.loop.time())
        self.mutation_quotas.apply(quotas)
        user = context.principal.partition(":")[2]
        return self.mutation_quotas.of_request(context.api_key, context.api_version, user, context.client_id or "")

    async def stop(self) -> None:
        """Stop the tasks and the registration."""
        await self._registration.stop()
        await self.tasks.stop()
