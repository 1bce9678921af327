"""Errors that say nothing about the settings of a run, so that the same work may succeed later."""

from edl.config import ConfigError


class RetryableError(ConfigError):
    """A damaged or unreadable file, a lock that another process holds, or workers that were lost.

    A sweep does not mark points as failed because of it: ``--resume`` tries again.
    """
