"""Many sessions on a few threads: deadlines, turns and back-pressure."""

from __future__ import annotations

from wlk_serve.scheduling.attachment import Attachment
from wlk_serve.scheduling.scheduler import Scheduler

__all__ = ["Attachment", "Scheduler"]
