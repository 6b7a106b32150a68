"""What the tests of every room share: how hypothesis runs."""

from __future__ import annotations

from hypothesis import settings

# No deadline, because a busy machine is no defect; the same examples on every run, because a test
# that fails must fail again.
settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")
