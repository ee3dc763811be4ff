"""Checks for CI: predicted seconds on a pinned machine against limits and against a stored baseline."""
