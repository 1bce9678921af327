"""Constants that were set from failures in the bottleneck maze, and must not be tuned any more.

The bottleneck maze is also where EDL is compared with other methods, which got no such attention. Tuning these
constants further on it, or on the random mazes of the tables, would make these results measure our patience. A change
needs a reason from elsewhere, and all tables measured again.
"""

import pytest

from edl.learn import placement, walking


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [(walking, "SIGHT_RADIUS", 2.5), (walking, "SIGHT_SLACK", 0.6), (placement, "MIN_SAVING", 0.2)],
)
def test_constants_set_from_failures_in_bottleneck_are_frozen(module, name, value):
    assert getattr(module, name) == value, f"{name} is frozen: see the docstring of this file"
