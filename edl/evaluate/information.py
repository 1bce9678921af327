"""Mutual information between skills and the cells that they visit, estimated by counting (the plug-in estimator).

I(S;Z) = H(S) - H(S|Z) is the objective of every method in the paper; here it is measured, in nats.
"""

import numpy as np
from jaxtyping import Float, Shaped


def entropy(weights: Shaped[np.ndarray, " c"]) -> float:
    """H(p) of the distribution proportional to non-negative ``weights``, for example the visits to each cell."""
    weights = np.asarray(weights, float)
    p = weights[weights > 0] / np.sum(weights)
    return float(-np.sum(p * np.log(p)))


def mutual_information(counts: Shaped[np.ndarray, "k c"]) -> float:
    """I(S;Z) = H(S) + H(Z) - H(S,Z) from the number of visits of skill k to cell c; between 0 and log k."""
    information = entropy(np.sum(counts, axis=0)) + entropy(np.sum(counts, axis=1)) - entropy(np.ravel(counts))
    return float(np.clip(information, 0.0, np.log(len(counts))))


def mutual_informations(counts: Float[np.ndarray, "b k c"]) -> Float[np.ndarray, " b"]:
    """`mutual_information` of many tables of counts n_kc with the sums n_k, n_c and N.

    I(S;Z) = (sum_kc n_kc log n_kc - sum_k n_k log n_k - sum_c n_c log n_c) / N + log N
    """
    total = counts.sum(axis=(1, 2))
    joint = _sum_of_n_log_n(counts.reshape(len(counts), -1))
    marginal = _sum_of_n_log_n(counts.sum(axis=2)) + _sum_of_n_log_n(counts.sum(axis=1))
    return np.clip((joint - marginal) / total + np.log(total), 0.0, np.log(counts.shape[1]))


def _sum_of_n_log_n(counts: Float[np.ndarray, "b n"]) -> Float[np.ndarray, " b"]:
    return np.sum(counts * np.log(np.where(counts > 0, counts, 1.0)), axis=1)
