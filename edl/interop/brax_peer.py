"""Brax's PPO on one of our envs: a peer of `edl bench`. Only this module imports Brax.

Brax 0.14 calls ``jax.device_put_replicated``, which JAX 0.10 has removed. While it trains, we provide the function.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from edl.envs.base import Box, Env

LEARNING_RATE, DISCOUNT = 3e-4, 0.99


class Settings(NamedTuple):
    """The settings that both learners share: envs, steps of each per iteration, epochs, minibatches and networks."""

    rollouts: int
    unroll: int
    epochs: int
    minibatches: int
    hidden: tuple[int, ...]


class BraxTime(NamedTuple):
    """The last third of a training: its environment steps and seconds; and the seconds that compiling took."""

    env_steps: int
    seconds: float
    compile_seconds: float


def as_brax_env(env: Env) -> Any:
    """An env of ours as a Brax env. Its reward is the progress along its first feature."""
    from brax.envs.base import Env as BraxBase
    from brax.envs.base import State

    space = env.action_space
    assert isinstance(space, Box)

    class Wrapped(BraxBase):
        def reset(self, rng: jax.Array) -> Any:
            state = env.reset(jax.random.wrap_key_data(rng) if rng.dtype == jnp.uint32 else rng)
            return State(state, env.observe(state), jnp.float32(0.0), jnp.float32(0.0))

        def step(self, state: Any, action: jax.Array) -> Any:
            low, high = space
            scaled = low + (jnp.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (high - low)
            step = env.step(jax.random.key(0), state.pipeline_state, scaled)
            gained = env.features(step.observation)[0] - env.features(state.obs)[0]
            return state.replace(
                pipeline_state=step.state,
                obs=step.observation,
                reward=gained,
                done=step.terminated.astype(jnp.float32),
            )

        @property
        def observation_size(self) -> int:
            return env.observation_size

        @property
        def action_size(self) -> int:
            return space.size

        @property
        def backend(self) -> str:
            return "mjx"

    return Wrapped()


@contextlib.contextmanager
def with_removed_function() -> Iterator[None]:
    """Provide the function of older versions of JAX that Brax needs."""
    name = "device_put_replicated"

    def replicate(tree: Any, devices: Sequence[Any]) -> Any:
        stacked = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * len(devices)), tree)
        return jax.pmap(lambda x: x, devices=list(devices))(stacked)  # placed like the results of training

    if hasattr(jax, name):
        yield
        return
    setattr(jax, name, replicate)
    try:
        yield
    finally:
        delattr(jax, name)


def train(env: Env, settings: Settings, iterations: int) -> BraxTime:
    """Train for three times ``iterations / 3`` iterations. The first two thirds compile, the last one is timed."""
    from brax.training.agents.ppo import networks
    from brax.training.agents.ppo.train import train as ppo

    unroll = settings.unroll or env.horizon
    per_iteration = settings.rollouts * unroll
    rates: list[float] = []

    def on_progress(steps: int, metrics: Any) -> None:
        if "training/sps" in metrics:
            rates.append(float(metrics["training/sps"]))

    def network_factory(*args: Any, **fields: Any) -> Any:
        sizes = {"policy_hidden_layer_sizes": settings.hidden, "value_hidden_layer_sizes": settings.hidden}
        return networks.make_ppo_networks(*args, **fields, **sizes)

    began = time.perf_counter()
    with with_removed_function():
        ppo(
            environment=as_brax_env(env),
            num_timesteps=iterations * per_iteration,
            episode_length=env.horizon,
            num_envs=settings.rollouts,
            num_evals=4,
            run_evals=False,
            unroll_length=unroll,
            batch_size=settings.rollouts // settings.minibatches,
            num_minibatches=settings.minibatches,
            num_updates_per_batch=settings.epochs,
            learning_rate=LEARNING_RATE,
            discounting=DISCOUNT,
            normalize_observations=True,
            network_factory=network_factory,
            progress_fn=on_progress,
        )
    total = time.perf_counter() - began
    steps = iterations // 3 * per_iteration
    seconds = steps / rates[-1]
    return BraxTime(steps, seconds, max(total - 3 * seconds, 0.0))
