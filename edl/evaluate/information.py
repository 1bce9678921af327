"""Information between skills and the cells of the world they visit, estimated by counting (the plug-in estimator).

I(S;Z) = H(S) - H(S|Z) is what every method of the paper maximises; here it is measured, in nats.
"""

import numpy as np
from jaxtyping import Shaped


def entropy(weights: Shaped[np.ndarray, " c"]) -> float:
    """H(p) of the distribution proportional to non-negative ``weights``; of the visits to each cell, state entropy."""
    weights = np.asarray(weights, float)
    p = weights[weights > 0] / np.sum(weights)
    return float(-np.sum(p * np.log(p)))


def perplexity(weights: Shaped[np.ndarray, " c"]) -> float:
    """The exponential of H(p): how many cells (or codes) are in use, as if all were used alike."""
    return float(np.exp(entropy(weights)))


def mutual_information(counts: Shaped[np.ndarray, "k c"]) -> float:
    """I(S;Z) = H(S) + H(Z) - H(S,Z) from how often skill k was seen in cell c; between 0 and log k."""
    information = entropy(np.sum(counts, axis=0)) + entropy(np.sum(counts, axis=1)) - entropy(np.ravel(counts))
    return float(np.clip(information, 0.0, np.log(len(counts))))
