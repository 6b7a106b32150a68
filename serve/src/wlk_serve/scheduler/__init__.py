"""Many sessions on a few threads: deadlines, turns and back-pressure."""

from __future__ import annotations

from wlk_serve.scheduler.attachment import Attachment
from wlk_serve.scheduler.scheduler import Scheduler

__all__ = ["Attachment", "Scheduler"]
