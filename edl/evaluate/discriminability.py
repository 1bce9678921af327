"""Can a stranger tell the skills apart by the states they visit?

The classifiers that methods train along with the policy judge themselves, and are fitted to visits long past. Here a
fresh q(z|s) of the same size is fitted to some rollouts and asked about others: its accuracy on those is what we call
discriminability, between 1 / K and 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.baselines.reverse_mi import classifier_loss
from edl.baselines.visits import sgd
from edl.envs.rollout import Episode
from edl.nets.optim import start
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, moments
from edl.types import Key, Scalar

HIDDEN = (64, 64)
EPOCHS, MINIBATCHES = 30, 16
LEARNING_RATE = 5e-3

Rows = tuple[Float[Array, "n s"], Int[Array, " n"], Float[Array, " n"]]
"""States, the skill each was visited with, and 1 where the visit counts."""


def fit_classifier(key: Key, rows: Rows, num_skills: int) -> tuple[MLP, Normaliser]:
    """A fresh q(z|s) by maximum likelihood: logits of the normalised state."""
    states, skills, valid = rows
    normaliser = moments(states)
    init_key, fit_key = jax.random.split(key)
    optimiser = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, EPOCHS * MINIBATCHES))
    begin = start(optimiser, mlp(init_key, (states.shape[-1], *HIDDEN, num_skills)))
    scaled = (jax.vmap(normaliser)(states), skills, valid)
    trained, _ = sgd(fit_key, optimiser, begin, classifier_loss, scaled, EPOCHS, MINIBATCHES)
    return trained.params, normaliser


def log_posterior(classifier: tuple[MLP, Normaliser], states: Float[Array, "n s"]) -> Float[Array, "n k"]:
    """log q(z|s) of each state."""
    model, normaliser = classifier
    return jax.nn.log_softmax(jax.vmap(lambda state: model(normaliser(state)))(states))


class Judgement(NamedTuple):
    """What the stranger found: its accuracy on rollouts it had not seen, and the skill it would take to each target."""

    discriminability: Scalar
    picks: Int[Array, " m"]


def judge(key: Key, episodes: Episode, targets: Float[Array, "m s"]) -> Judgement:
    """Fit a classifier to every other rollout of each skill, and ask it about the visits of the rest.

    ``episodes`` are `rollouts`, with leading axes (skill, rollout); there are at least two of each skill.
    """
    num_skills, half = episodes.valid.shape[0], 2 * (episodes.valid.shape[1] // 2)
    seen, held = (visits_of(jax.tree.map(lambda x, i=i: x[:, i:half:2], episodes)) for i in (0, 1))
    classifier = fit_classifier(key, seen, num_skills)
    states, skills, valid = held
    right = jnp.argmax(log_posterior(classifier, states), axis=1) == skills
    accuracy = jnp.sum(valid * right) / jnp.maximum(jnp.sum(valid), 1.0)
    return Judgement(accuracy, jnp.argmax(log_posterior(classifier, targets), axis=1))


def visits_of(episodes: Episode) -> Rows:
    """Every state reached, as rows; the start is the same for all skills and tells nothing."""
    reached = episodes.features[..., 1:, :]
    skills = jnp.broadcast_to(jnp.arange(reached.shape[0])[:, None, None], reached.shape[:-1])
    return reached.reshape(-1, reached.shape[-1]), skills.reshape(-1), episodes.valid.reshape(-1).astype(jnp.float32)
