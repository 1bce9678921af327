"""Mutual information between skills and the cells that they visit, estimated by counting (the plug-in estimator).

I(S;Z) = H(S) - H(S|Z) is the objective of every method in the paper; here it is measured, in nats.
"""

import numpy as np
from jaxtyping import Shaped


def entropy(weights: Shaped[np.ndarray, " c"]) -> float:
    """H(p) of the distribution proportional to non-negative ``weights``, for example the visits to each cell."""
    weights = np.asarray(weights, float)
    p = weights[weights > 0] / np.sum(weights)
    return float(-np.sum(p * np.log(p)))


def mutual_information(counts: Shaped[np.ndarray, "k c"]) -> float:
    """I(S;Z) = H(S) + H(Z) - H(S,Z) from the number of visits of skill k to cell c; between 0 and log k."""
    information = entropy(np.sum(counts, axis=0)) + entropy(np.sum(counts, axis=1)) - entropy(np.ravel(counts))
    return float(np.clip(information, 0.0, np.log(len(counts))))
