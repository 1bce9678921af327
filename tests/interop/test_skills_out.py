"""Skills outside of JAX: the same actions in NumPy, in an exported file, in ONNX, and as an environment."""

import subprocess
import sys
from importlib.util import find_spec

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from edl.artifacts import SkillPolicy
from edl.config import ConfigError
from edl.envs.base import Box, Discrete
from edl.interop.numpy_policy import exported, to_numpy
from edl.interop.onnx_policy import to_onnx
from edl.interop.skill_env import SkillEnv
from edl.nets.distributions import action_distribution
from edl.nets.mlp import mlp
from edl.nets.normalise import Normaliser
from tests.compiling import jit

BOX = Box(jnp.array([-1.0]), jnp.array([2.0]))
KINDS = {"beta": (BOX, "beta"), "tanh_gaussian": (BOX, "tanh_gaussian"), "categorical": (Discrete(3), "beta")}


def make(kind: str, observed: int = 2) -> SkillPolicy:
    distribution = action_distribution(*KINDS[kind])
    codes = jax.random.normal(jax.random.key(1), (4, 3))
    normaliser = Normaliser(jnp.arange(observed) * 0.1, jnp.arange(1.0, observed + 1))
    return SkillPolicy(
        mlp(jax.random.key(0), (observed + 3, 16, 16, distribution.size)), normaliser, distribution, codes
    )


OBSERVATIONS = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)


@pytest.fixture(params=KINDS)
def policy(request):
    return make(request.param)


def test_numpy_equals_jax_for_skills_and_for_blends(policy):
    skills = to_numpy(policy)
    blend = 0.3 * policy.codes[0] + 0.7 * policy.codes[2]
    for code, ours in ((blend, np.asarray(blend)), (policy.codes[3], 3)):
        expected = jax.vmap(policy.mode, (0, None))(jnp.asarray(OBSERVATIONS), code)
        np.testing.assert_allclose(skills.mode(OBSERVATIONS, ours), expected, atol=1e-5)
        np.testing.assert_allclose(skills.mode(OBSERVATIONS[0], ours), expected[0], atol=1e-5)


def test_skills_in_numpy_say_what_they_are():
    assert repr(to_numpy(make("beta"))).startswith("NumpySkills: 4 skills; ")


def test_numpy_draws_from_the_same_distribution(policy):
    code, seen, draws = policy.codes[1], OBSERVATIONS[0], 4000
    ours = to_numpy(policy).act(np.random.default_rng(0), np.tile(seen, (draws, 1)), 1)
    keys = jax.random.split(jax.random.key(0), draws)
    expected = jit(jax.vmap(policy.act, (0, None, None)))(keys, jnp.asarray(seen), code)
    np.testing.assert_allclose(np.mean(ours, axis=0), np.mean(expected, axis=0), atol=0.06)
    np.testing.assert_allclose(np.std(ours, axis=0), np.std(expected, axis=0), atol=0.06)


def test_an_exported_file_needs_only_numpy(policy, tmp_path):
    (tmp_path / "policy.py").write_text(exported(policy, "a test\nof export"))
    script = (
        "import sys; import numpy as np; from policy import skills; "
        "assert not {'jax', 'edl'} & set(sys.modules); print(float(np.ravel(skills.mode(np.array([0.5, -1.0]), 2))[0]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = np.ravel(policy.mode(jnp.array([0.5, -1.0]), policy.codes[2]))[0]
    assert float(done.stdout) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.skipif(not (find_spec("onnx") and find_spec("onnxruntime")), reason="needs edl[export]")
def test_onnx_equals_jax(policy):
    import onnxruntime

    session = onnxruntime.InferenceSession(to_onnx(to_numpy(policy)), providers=["CPUExecutionProvider"])
    codes = np.asarray(policy.codes)[np.arange(50) % 4]
    action, _ = session.run(None, {"observation": OBSERVATIONS, "code": codes})
    expected = jax.vmap(policy.mode)(jnp.asarray(OBSERVATIONS), jnp.asarray(codes))
    np.testing.assert_allclose(action, expected, atol=1e-5)


def test_policies_of_several_seeds_are_rejected():
    several = jax.tree.map(lambda x: jnp.stack([x, x]), make("beta"))
    with pytest.raises(ConfigError, match=r"run.seeds\[0\]"):
        to_numpy(several)


def car(**options) -> SkillEnv:
    return SkillEnv(gymnasium.make("MountainCarContinuous-v0"), to_numpy(make("beta")), hold=5, **options)


@pytest.mark.filterwarnings("ignore")  # the checker warns about wrappers
@pytest.mark.parametrize("blend", [False, True])
def test_a_skill_env_is_a_gymnasium_environment(blend):
    check_env(car(blend=blend), skip_render_check=True)


def test_a_skill_is_held_and_its_rewards_are_summed():
    env = car(deterministic=True)
    plain = gymnasium.make("MountainCarContinuous-v0")
    seen, _ = env.reset(seed=3)
    other, _ = plain.reset(seed=3)
    np.testing.assert_array_equal(seen, other)
    total = 0.0
    for _ in range(5):
        other, reward, *_ = plain.step(env.skills.mode(other, 2))
        total += float(reward)
    seen, reward, _, truncated, info = env.step(2)
    np.testing.assert_allclose(seen, other, atol=1e-6)
    assert (reward, truncated, info["steps"]) == (pytest.approx(total), False, 5)


def test_skills_of_another_env_are_rejected():
    with pytest.raises(ConfigError, match="observations must have shape"):
        SkillEnv(gymnasium.make("CartPole-v1"), to_numpy(make("beta")))
    with pytest.raises(ConfigError, match=r"hold must be at least 1 \(got 0\)"):
        SkillEnv(gymnasium.make("MountainCarContinuous-v0"), to_numpy(make("beta")), hold=0)


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="needs edl[sb3]")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("blend", [False, True])
def test_stable_baselines3_trains_on_a_skill_env(blend):
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", car(blend=blend), n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=0)
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(32)
    assert any(not bool((a == b).all()) for a, b in zip(before, model.policy.parameters(), strict=True))
