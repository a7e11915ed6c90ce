"""The security of a node's listeners, from settings alone."""

from __future__ import annotations

from functools import partial
from random import Random

from broker.metadata.dynamic_config import DynamicConfig
from broker.security.listener_security import ListenerSecurity
from broker.settings import Option, check_settings
from controller.delegation_tokens import TokenHmacs
from controller.image import MetadataImage
from storage.disk import UnsyncedDisk


def listener_security(
    now_ms: int = 0, hmacs: TokenHmacs | None = None, /, **settings: str
) -> tuple[ListenerSecurity, DynamicConfig]:
    """Return the security, which has read nothing, and its settings; `now_ms` is the wall clock."""
    dynamic_config = DynamicConfig(check_settings({name: Option(text, "test") for name, text in settings.items()}))
    return ListenerSecurity(
        dynamic_config.start,
        dynamic_config,
        UnsyncedDisk(),
        partial(MetadataImage, cluster_id="c"),
        lambda: now_ms,
        hmacs,
        Random(1),
    ), dynamic_config
