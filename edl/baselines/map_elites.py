"""MAP-Elites: illuminating search spaces by mapping elites (Mouret and Clune, 2015). Quality-diversity by evolution.

A repertoire has one place per cell of a grid over the last state of an episode. In each iteration, children of random
members are played, and each takes the place of its cell if that is empty or holds a member of less fitness:

    x' = x_1 + sigma_iso N(0, I) + sigma_line (x_2 - x_1) N(0, 1)    iso + line variation (Vassiliades and Mouret, 2018)
    cell(x)     the cell of the last state s_T of an episode with the policy x
    fitness(x)  -(length of the path of the episode)

A member is the weights of a small deterministic network a = tanh(x(s)); there is no z. The skills are the K members
whose last states are the medoids of all. They become one network pi(a|s,z) with one-hot z (`join_members`).

To reach a state, the skill is the one whose own last state, when it was recorded, is nearest.

Departs from the paper: the grid has no border. Cells are hashed into a fixed number of places, and two cells with one
place compete for it. The last state and the fitness of a member are those of one episode, although starts are random.

QDax 0.5 has MAP-Elites too, and runs with JAX 0.10. It is not used, because it requires Brax, Flax, Jumanji,
TensorFlow Probability and scikit-learn, and the centroids of all cells in advance, so its grid has a border.
"""

from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.goal_skills import medoids
from edl.baselines.pick_rules import NearestMean
from edl.config import check, config
from edl.envs.base import Discrete, Env
from edl.envs.rollout import Episode, empty_skill, rollout
from edl.nets.cells import cell_of
from edl.nets.distributions import action_distribution
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import identity_normaliser
from edl.nets.quantiser import nearest
from edl.program import Program
from edl.types import Key, Metrics

CLOSED = 1e3
"""How far below zero the hidden units of a member are that z does not select."""
LOG_DEVIATION = -5.0
"""The policy is deterministic but for this."""


@config
class MAPElitesConfig:
    """2.5 million steps by default in an env with 50 steps per episode: evolution needs no gradients."""

    num_skills: int = 10
    """Number of members that become skills."""
    iterations: int = 400
    """Iterations."""
    rollouts: int = 128
    """Children per iteration, each played for one episode."""
    hidden_size: int = 32
    """Hidden units of a member, in one layer."""
    cell: float = 0.5
    """Side of a cell, in units of the features."""
    places: int = 4096
    """Places of the repertoire."""
    iso_sigma: float = 0.05
    """sigma_iso, the deviation of the noise that is independent in every weight."""
    line_sigma: float = 0.2
    """sigma_line, the deviation along the line between two members."""


class Repertoire(NamedTuple):
    """Weights, last state and fitness of the member in each place; the fitness of an empty place is -infinity."""

    weights: Float[Array, "p w"]
    ends: Float[Array, "p s"]
    fitness: Float[Array, " p"]

    @property
    def filled(self) -> Bool[Array, " p"]:
        return jnp.isfinite(self.fitness)


def map_elites(env: Env, config: MAPElitesConfig) -> Program[Repertoire, SkillPolicy]:
    """Evolve a repertoire of policies that end in different cells."""
    space = env.action_space
    check(not isinstance(space, Discrete), "map_elites needs continuous actions. Use an env that has them.")
    actions: Any = action_distribution(space, "tanh_gaussian")
    sizes = (env.observation_size, config.hidden_size, actions.size // 2)
    example, as_network = jax.flatten_util.ravel_pytree(mlp(jax.random.key(0), sizes))

    def play(key: Key, weights: Float[Array, " w"]) -> Episode:
        net = as_network(weights)
        pad = jnp.full(actions.size // 2, LOG_DEVIATION)
        act = lambda key, observation, code: (  # noqa: E731
            actions.mean(jnp.concatenate([net(observation), pad])),
            jnp.zeros(0),
        )
        return rollout(key, env, act, empty_skill())

    def add(key: Key, repertoire: Repertoire, children: Float[Array, "b w"]) -> Repertoire:
        episodes = jax.vmap(play)(jax.random.split(key, children.shape[0]), children)
        ends = jax.vmap(lambda episode: episode.last)(episodes)
        moves = jnp.linalg.norm(jnp.diff(episodes.features, axis=1), axis=-1)
        return insert(repertoire, children, ends, -jnp.sum(moves * episodes.valid, axis=1), config.cell)

    def init(key: Key) -> Repertoire:
        network_key, play_key = jax.random.split(key)
        keys = jax.random.split(network_key, config.rollouts)
        first = jax.vmap(lambda key: jax.flatten_util.ravel_pytree(mlp(key, sizes))[0])(keys)
        empty = Repertoire(
            jnp.zeros((config.places, example.shape[0])),
            jnp.zeros((config.places, env.feature_size)),
            jnp.full(config.places, -jnp.inf),
        )
        return add(play_key, empty, first)

    def step(repertoire: Repertoire, key: Key) -> tuple[Repertoire, Metrics]:
        child_key, play_key = jax.random.split(key)
        children = vary(child_key, repertoire, config)
        repertoire = add(play_key, repertoire, children)
        return repertoire, {"members": jnp.sum(repertoire.filled).astype(jnp.float32)}

    def finish(repertoire: Repertoire) -> SkillPolicy:
        chosen = choose_members(repertoire, config.num_skills)
        members = jax.vmap(as_network)(repertoire.weights[chosen])
        actor, goals = join_members(members, config.num_skills), repertoire.ends[chosen]
        codes, normaliser = jnp.eye(config.num_skills), identity_normaliser(env.observation_size)
        return SkillPolicy(actor, normaliser, actions, codes, goals=goals, pick=NearestMean(goals))

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def vary(key: Key, repertoire: Repertoire, config: MAPElitesConfig) -> Float[Array, "b w"]:
    """Children of random pairs of members."""
    parent_key, iso_key, line_key = jax.random.split(key, 3)
    order = jnp.argsort(~repertoire.filled)  # filled places first
    drawn = jax.random.randint(parent_key, (2, config.rollouts), 0, jnp.sum(repertoire.filled))
    one, other = repertoire.weights[order[drawn]]
    iso = config.iso_sigma * jax.random.normal(iso_key, one.shape)
    return one + iso + config.line_sigma * jax.random.normal(line_key, (config.rollouts, 1)) * (other - one)


def insert(
    repertoire: Repertoire,
    weights: Float[Array, "b w"],
    ends: Float[Array, "b s"],
    fitness: Float[Array, " b"],
    cell: Any,
) -> Repertoire:
    """Each child takes its place if it is fitter than the member there and the fittest child of that place."""
    count = repertoire.fitness.shape[0]
    places = jax.vmap(lambda end: cell_of(end, cell, count))(ends)
    best = repertoire.fitness.at[places].max(fitness)
    rows = jnp.arange(fitness.shape[0])
    wins = (fitness == best[places]) & (fitness > repertoire.fitness[places])
    first = jnp.full(count, fitness.shape[0]).at[jnp.where(wins, places, count)].min(rows, mode="drop")
    target = jnp.where(wins & (first[places] == rows), places, count)
    return Repertoire(
        repertoire.weights.at[target].set(weights, mode="drop"),
        repertoire.ends.at[target].set(ends, mode="drop"),
        repertoire.fitness.at[target].set(fitness, mode="drop"),
    )


def choose_members(repertoire: Repertoire, number: int) -> Int[Array, " k"]:
    """The places of the members whose last states are the medoids of all.

    The number of members is not static, so k-means gets them in turn until it has a row per place: all count alike.
    """
    members = jnp.argsort(~repertoire.filled)  # filled places first
    rows = members[jnp.arange(members.shape[0]) % jnp.sum(repertoire.filled)]
    distant = jnp.where(repertoire.filled[:, None], repertoire.ends, jnp.inf)
    return jax.vmap(lambda state: nearest(state, distant))(medoids(repertoire.ends[rows], number))


def join_members(members: MLP, number: int) -> MLP:
    """One network of (s, z) whose output for one-hot z is that of the selected member, with a fixed log deviation.

    The hidden units of all members are side by side. z lifts those of its own member by `CLOSED`, and a bias lowers all
    by the same, so that those of the others are 0 after ReLU. A further unit per member carries its output bias.
    """
    (first, last), (hidden_bias, out_bias) = members.weights, members.biases
    inputs, units, outputs = first.shape[1], first.shape[2] + 1, last.shape[2]
    first = jnp.concatenate([first, jnp.zeros((number, inputs, 1))], axis=2)
    bias = jnp.concatenate([hidden_bias, jnp.ones((number, 1))], axis=1)
    gate = CLOSED * jnp.repeat(jnp.eye(number), units, axis=1)
    last = jnp.concatenate([last, out_bias[:, None]], axis=1).reshape(number * units, outputs)
    weights = [
        jnp.concatenate([jnp.moveaxis(first, 0, 1).reshape(inputs, number * units), gate]),
        jnp.concatenate([last, jnp.zeros_like(last)], axis=1),
    ]
    deviations = jnp.concatenate([jnp.zeros(outputs), jnp.full(outputs, LOG_DEVIATION)])
    return MLP(weights, [bias.reshape(-1) - CLOSED, deviations])
