"""Which laws wait for `make test-slow`: those that compile a method once more, where another shares its learner."""

import pytest

COMPILED_AGAIN = "test_a_seed_alone_equals_that_seed_among_others"
STAND_INS = (
    *("explore-random_walk", "explore-oracle", "explore-frontier", "discover-vqvae", "discover-kmeans", "learn-"),
    *("baselines-vic", "baselines-diayn"),
)
"""One or more for each learner."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the others as slow."""
    for item in items:
        name, _, case = item.name.partition("[")
        if name == COMPILED_AGAIN and not case.startswith(STAND_INS):
            item.add_marker(pytest.mark.slow)
