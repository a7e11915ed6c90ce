"""What the files of a data directory state about one log, for loading it."""

from typing import NamedTuple


class LogCheckpoint(NamedTuple):
    """A log's offsets in the checkpoint files, and whether they are those of a clean shutdown."""

    clean: bool = True
    """Whether the last shutdown was clean; otherwise the log is recovered."""
    recovery_point: int = 0
    """All below was synced."""
    log_start_offset: int = 0
    """All below was deleted."""
    high_watermark: int = 0
    compacted: bool | None = None
    """Whether the log may have been compacted, which leaves gaps; None: read the cleaner checkpoint."""
    contiguous_from: int | None = None
    """Segments above were written by this broker; None: unknown (`corruption_checks.is_loss`)."""


NEW_LOG = LogCheckpoint()
