"""Discriminability: the accuracy with which a newly trained classifier predicts the skill from a visited state.

The classifiers that methods train along with the policy are no fair test: the policy is optimised against them, and
they are fitted to visits of earlier policies. Here a new q(z|s) of the same size is fitted to half of the rollouts and
tested on the other half. Its accuracy lies between 1 / K and 1.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from edl.baselines.model_fitting import Visits
from edl.baselines.reverse_mi import classifier_loss
from edl.envs.rollout import Episode
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, fit_normaliser
from edl.nets.optim import new_trained, sgd
from edl.types import Key, Scalar

HIDDEN = (64, 64)
EPOCHS, MINIBATCHES = 30, 16
LEARNING_RATE = 5e-3
MAX_LOGITS = 2**25
"""Maximum number of logits that are computed at once, to bound memory. Up to a thousand skills with episodes of 50
steps, the classifier is fitted to all visits, and beyond that to a uniform sample of them."""


def measure_discriminability(key: Key, episodes: Episode) -> Scalar:
    """The accuracy of a classifier that is fitted to every other rollout of each skill, on the visits of the others.

    ``episodes`` have the leading axes (skill, rollout), with at least two rollouts per skill.
    """
    num_skills, half = episodes.valid.shape[0], 2 * (episodes.valid.shape[1] // 2)
    train, test = (labelled_visits(jax.tree.map(lambda x, i=i: x[:, i:half:2], episodes)) for i in (0, 1))
    classifier = fit_classifier(key, train, num_skills)
    correct = predicted_skills(classifier, test.states, max(MAX_LOGITS // num_skills, 1)) == test.skills
    return jnp.sum(test.weight * correct) / jnp.maximum(jnp.sum(test.weight), 1.0)


def fit_classifier(key: Key, visits: Visits, num_skills: int) -> tuple[MLP, Normaliser]:
    """Fit q(z|s) by maximum likelihood. Returns the network, whose outputs are logits, and its input normaliser."""
    rows = limited_rows(len(visits.skills), MINIBATCHES * MAX_LOGITS // num_skills)
    visits = jax.tree.map(lambda x: x[rows], visits)
    normaliser = fit_normaliser(visits.states)
    init_key, fit_key = jax.random.split(key)
    optimiser = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, EPOCHS * MINIBATCHES))
    begin = new_trained(optimiser, mlp(init_key, (visits.states.shape[-1], *HIDDEN, num_skills)))
    scaled = visits._replace(states=jax.vmap(normaliser)(visits.states))
    trained, _ = sgd(fit_key, optimiser, begin, classifier_loss, scaled, EPOCHS, MINIBATCHES)
    return trained.params, normaliser


def limited_rows(total: int, most: int) -> slice | Int[np.ndarray, " n"]:
    """All rows, or a uniform sample of ``most`` of them, the same one each time."""
    return slice(None) if total <= most else np.random.default_rng(0).choice(total, max(most, 1), replace=False)


def predicted_skills(classifier: tuple[MLP, Normaliser], states: Float[Array, "n s"], size: int) -> Int[Array, " n"]:
    """argmax_z q(z|s) of each state, for ``size`` states at a time."""
    if len(states) <= size:
        return jnp.argmax(log_posterior(classifier, states), axis=1)
    return jax.lax.map(lambda s: jnp.argmax(log_posterior(classifier, s[None])[0]), states, batch_size=size)


def log_posterior(classifier: tuple[MLP, Normaliser], states: Float[Array, "n s"]) -> Float[Array, "n k"]:
    """log q(z|s) of each state."""
    model, normaliser = classifier
    return jax.nn.log_softmax(jax.vmap(lambda state: model(normaliser(state)))(states))


def labelled_visits(episodes: Episode) -> Visits:
    """All visited states except the start, which is the same for all skills. Leading axes: (skill, rollout)."""
    reached = episodes.features[..., 1:, :]
    skills = jnp.broadcast_to(jnp.arange(reached.shape[0])[:, None, None], reached.shape[:-1])
    return Visits(
        states=reached.reshape(-1, reached.shape[-1]),
        skills=skills.reshape(-1),
        weight=episodes.valid.reshape(-1).astype(jnp.float32),
    )
