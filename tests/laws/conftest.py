"""Mark as slow the law tests that compile a method a second time, and those of methods that resemble others."""

import pytest

from tests.laws.cases import SLOW_METHODS

COMPILES_AGAIN = "test_a_seed_alone_equals_that_seed_in_a_batch"
FAST_CASES = (
    *("explore-random_walk", "explore-oracle", "explore-frontier", "discover-vqvae", "discover-kmeans", "learn-"),
    *("baselines-vic", "baselines-diayn"),
)
"""The methods for which the test is not slow: at least one per learner."""

SLOW_CASES = ("explore-tldr]", *(f"baselines-{name}]" for name in SLOW_METHODS))
"""Methods whose laws are all slow: they have the learner of another one, whose laws are not."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name, _, case = item.name.partition("[")
        if case.startswith(SLOW_CASES) or (name == COMPILES_AGAIN and not case.startswith(FAST_CASES)):
            item.add_marker(pytest.mark.slow)
