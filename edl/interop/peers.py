"""PPO of other libraries on our maze, with the networks, batch and epochs of our settings: the peers of `edl bench`.

Stable-Baselines3 is timed as its users run it, with its own vector env over ``gymnasium.make``. It is also timed, like
SBX, with a vector env that steps all mazes in one compiled call, which is faster. Rejax uses the maze itself.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

ENV_ID = "edl.interop.registration:edl/Bottleneck-v0"
NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCHES, HIDDEN = 100, 50, 4, 10, [128, 128]
BATCH = NUM_ENVS * NUM_STEPS


def sb3(iterations: int) -> Callable[[], None]:
    """Stable-Baselines3 as its users run it."""
    from stable_baselines3.common.env_util import make_vec_env

    return _sb3(iterations, make_vec_env(ENV_ID, NUM_ENVS))


def sb3_batched(iterations: int) -> Callable[[], None]:
    """Stable-Baselines3 with a maze that steps 100 episodes in one compiled call."""
    return _sb3(iterations, _vec_env())


def _sb3(iterations: int, env: Any) -> Callable[[], None]:
    """Use one thread: networks of this size are slower on several."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    return _baseline(PPO, iterations, env, {"activation_fn": torch.nn.ReLU}, device="cpu")


def sbx(iterations: int) -> Callable[[], None]:
    """SBX: the same interface, in JAX."""
    from flax import linen
    from sbx import PPO

    return _baseline(PPO, iterations, _vec_env(), {"activation_fn": linen.relu})


def _baseline(algorithm: Any, iterations: int, env: Any, policy: dict[str, Any], **settings: Any) -> Callable[[], None]:
    model = algorithm(
        "MlpPolicy",
        env,
        n_steps=NUM_STEPS,
        batch_size=BATCH // MINIBATCHES,
        n_epochs=EPOCHS,
        policy_kwargs={"net_arch": {"pi": HIDDEN, "vf": HIDDEN}, **policy},
        **settings,
    )
    return lambda: model.learn(iterations * BATCH, reset_num_timesteps=False) and None


def _vec_env() -> Any:
    """Our vector env as a Stable-Baselines3 `VecEnv`."""
    import gymnasium
    from stable_baselines3.common.vec_env import VecEnv

    inner = gymnasium.make_vec(ENV_ID, num_envs=NUM_ENVS)

    class BatchedMazes(VecEnv):
        def __init__(self) -> None:
            super().__init__(NUM_ENVS, inner.single_observation_space, inner.single_action_space)
            self.actions = np.zeros((NUM_ENVS, 2), np.float32)

        def reset(self) -> np.ndarray:
            return inner.reset(seed=0)[0]

        def step_async(self, actions: np.ndarray) -> None:
            self.actions = actions

        def step_wait(self) -> tuple:
            observations, rewards, terminated, truncated, _ = inner.step(self.actions)
            return observations, rewards, terminated | truncated, [{} for _ in range(NUM_ENVS)]

        def close(self) -> None:
            inner.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(inner, attr_name, None)] * NUM_ENVS

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            setattr(inner, attr_name, value)

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [getattr(inner, method_name)(*args, **kwargs)] * NUM_ENVS

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * NUM_ENVS

    return BatchedMazes()


def rejax(iterations: int, seeds: int = 1) -> Callable[[], Any]:
    """Rejax: one JAX program, like ours. It evaluates once, with an empty callback."""
    import jax
    from gymnax.environments import environment, spaces
    from rejax import PPO

    from edl.envs.maze import MAX_ACTION, maze

    inner = maze("bottleneck")

    class RejaxMaze(environment.Environment):
        @property
        def default_params(self) -> Any:
            return environment.EnvParams(max_steps_in_episode=inner.horizon)

        def step(self, key: Any, state: Any, action: Any, params: Any = None) -> tuple:
            step_key, reset_key = jax.random.split(key)
            step, fresh = inner.step(step_key, state, action), inner.reset(reset_key)
            state = jax.tree.map(lambda new, old: jax.numpy.where(step.truncated, new, old), fresh, step.state)
            return inner.observe(state), state, jax.numpy.float32(0.0), step.truncated, {}

        def reset(self, key: Any, params: Any = None) -> tuple:
            state = inner.reset(key)
            return inner.observe(state), state

        def observation_space(self, params: Any) -> Any:
            return spaces.Box(-20.0, 20.0, (2,))

        def action_space(self, params: Any = None) -> Any:
            return spaces.Box(-MAX_ACTION, MAX_ACTION, (2,))

    env = RejaxMaze()
    algorithm = PPO.create(
        env=env,
        env_params=env.default_params,
        num_envs=NUM_ENVS,
        num_steps=NUM_STEPS,
        num_epochs=EPOCHS,
        num_minibatches=MINIBATCHES,
        total_timesteps=iterations * BATCH,
        eval_freq=iterations * BATCH,
        skip_initial_evaluation=True,
        agent_kwargs={"hidden_layer_sizes": tuple(HIDDEN), "activation": "relu"},
    ).replace(eval_callback=lambda *_: ())
    one = lambda key: algorithm.train(key)[0].actor_ts.params  # noqa: E731
    train = jax.jit(one if seeds == 1 else jax.vmap(one))
    keys = jax.random.key(0) if seeds == 1 else jax.random.split(jax.random.key(0), seeds)
    return lambda: train(keys)


PEERS: dict[str, Callable[[int], Callable[[], Any]]] = {
    "SB3 PPO": sb3,
    "SB3 PPO, batched maze": sb3_batched,
    "SBX PPO, batched maze": sbx,
    "rejax PPO": rejax,
}
