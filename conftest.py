"""What the tests of every room share: how hypothesis runs."""

from __future__ import annotations

from hypothesis import settings

# No deadline, because a slow test on a busy machine is not a failure; the same examples on every
# run, because a test that fails must fail again.
settings.register_profile("steady", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("steady")
