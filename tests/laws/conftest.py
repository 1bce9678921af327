"""Mark as slow the law tests that compile a method a second time, except for one or more methods per learner."""

import pytest

COMPILES_AGAIN = "test_a_seed_alone_equals_that_seed_in_a_batch"
FAST_CASES = (
    *("explore-random_walk", "explore-oracle", "explore-frontier", "discover-vqvae", "discover-kmeans", "learn-"),
    *("baselines-vic", "baselines-diayn"),
)
"""The methods for which the test is not slow: at least one per learner."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name, _, case = item.name.partition("[")
        if name == COMPILES_AGAIN and not case.startswith(FAST_CASES):
            item.add_marker(pytest.mark.slow)
