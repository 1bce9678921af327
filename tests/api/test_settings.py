"""Settings as configs, dicts and dotted names, and the messages about bad ones."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import edl
from edl.api.messages import in_python
from edl.api.settings import _checked, build_config
from edl.baselines.diayn import DIAYNConfig
from edl.config import ConfigError, config
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.rl.sac import SACConfig
from edl.runs.config import to_json
from edl.runs.pipeline import run_identity
from edl.runs.presets import complete, from_json
from edl.runs.resolve import resolve_config


def forced(config: Any, **values: Any) -> Any:
    """A config with values of the wrong type, which the type checker of the tests would reject."""
    for name, value in values.items():
        object.__setattr__(config, name, value)
    return config


@config
class Own:
    """The config of a method that a user registers."""

    fn: Callable[..., Any] = len
    rows: np.ndarray | None = None
    anything: Any = None
    sizes: PPOConfig = dataclasses.field(default_factory=PPOConfig)
    rate: float = 0.5


def test_dicts_and_dotted_names_change_the_presets_settings():
    nested = build_config("square", {"learner": {"ppo": {"iterations": 50}}, "num_skills": np.int64(4)})
    dotted = build_config("square", {"learner.ppo.iterations": 50, "num_skills": 4})
    assert complete(nested) == complete(dotted)
    default = complete(build_config("square", {})).learner
    assert nested.learner == dataclasses.replace(default, ppo=dataclasses.replace(default.ppo, iterations=50))
    both = build_config("square", {"learner": {"ppo": {"iterations": 50}}, "learner.ppo.gamma": 1})
    assert (both.learner.ppo.iterations, both.learner.ppo.gamma) == (50, 1.0)


def test_a_config_replaces_all_settings():
    given = LearnConfig(ppo=PPOConfig(iterations=50))
    assert build_config("square", {"learner": given}).learner == given
    inner = dataclasses.replace(given, ppo=PPOConfig(hidden=(8, 4), max_gradient_norm=float("inf")))
    assert build_config("square", {"learner": inner}).learner == inner


@pytest.mark.parametrize(
    "settings",
    [
        {"explore": "random_walk", "explorer": RandomWalkConfig(persistence=0)},
        {"explore": "random_walk", "explorer": RandomWalkConfig(persistence=np.float32(0.5))},  # type: ignore[arg-type]
        {"learner": LearnConfig(ppo=PPOConfig(iterations=5, gamma=1, max_gradient_norm=1))},
        {"method": "diayn", "baseline": DIAYNConfig(sac=SACConfig(tau=1))},
    ],
)
def test_an_identity_is_the_same_after_json_if_a_float_is_given_as_an_integer(settings):
    config = resolve_config(build_config("square", settings))
    read = resolve_config(from_json(json.loads(json.dumps(to_json(config))), "config.json"))
    assert run_identity(read) == run_identity(config)


def test_a_config_may_have_numbers_of_numpy():
    given = LearnConfig(ppo=forced(PPOConfig(), iterations=np.int64(5), gamma=np.float32(0.5)))
    built = build_config("square", {"learner": given}).learner
    assert built == LearnConfig(ppo=PPOConfig(iterations=5, gamma=0.5))
    assert type(built.ppo.iterations) is int


def test_a_config_of_a_user_may_hold_what_json_cannot():
    given = Own(fn=len, rows=np.eye(2), anything=np.eye(2), sizes=forced(PPOConfig(), hidden=[np.int64(8)]), rate=1)
    built = _checked(given, "baseline")
    assert (built.fn, built.rows, built.anything) == (given.fn, given.rows, given.anything)
    assert (built.sizes.hidden, built.rate) == ((8,), 1.0)
    assert type(built.rate) is float
    with pytest.raises(ConfigError, match=r"baseline.sizes.gamma must be a number \(got 'high'\)"):
        _checked(Own(sizes=forced(PPOConfig(), gamma="high")), "baseline")


def test_numbers_and_arrays_of_numpy_are_settings_wherever_python_numbers_are():
    plain = build_config("square", {"learner": {"ppo": {"iterations": 5, "gamma": 0.5, "hidden": [8, 4]}}})
    ppo = {"iterations": np.int64(5), "gamma": np.float32(0.5), "hidden": np.array([8, 4])}
    assert build_config("square", {"learner": {"ppo": ppo}}) == plain
    assert build_config("square", {"learner.ppo": ppo}) == plain
    assert build_config("square", {f"learner.ppo.{name}": value for name, value in ppo.items()}) == plain


def test_the_learner_decides_whether_there_is_a_scout():
    assert complete(build_config("square", {"explore": "oracle"})).scout is not None
    assert complete(build_config("square", {"explore": "oracle", "learner": {"distance": "euclidean"}})).scout is None
    scout = build_config("square", {"explore": "oracle", "scout": {"num_samples": 7}}).scout
    assert scout.num_samples == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"until": "explor"}, r"until must be one of explore, discover, .*learn \(got 'explor'\)"),
        ({"num_skills": "3"}, r"^num_skills must be an integer \(got '3'\)"),
        ({"num_skills": 0}, r"num_skills must be an integer of at least 1 \(got 0\). Change num_skills\.$"),
        ({"nun_skills": 3}, r"unknown setting 'nun_skills'. Did you mean 'num_skills'\?"),
        (
            {"learner": {"ppo": {"iteration": 3}}},
            r"unknown setting in learner.ppo: 'iteration'. Did you mean 'iterations'",
        ),
        ({"learner.ppo.iterations": "x"}, r"learner.ppo.iterations must be an integer \(got 'x'\)"),
        ({"learner": {"reward": "sparse"}}, r"learner.reward must be one of 'log_likelihood'"),
        ({"learner": {"ppo": 3}}, r"learner.ppo must be an object of settings \(got 3\)"),
        ({"learner": LearnConfig(ppo=PPOConfig(learning_rate=-1))}, r"learner.ppo.learning_rate must be at least 0"),
        ({"learner": LearnConfig(ppo=PPOConfig(iterations=True))}, r"learner.ppo.iterations must be an integer"),
        (
            {"learner": LearnConfig(ppo=forced(PPOConfig(), iterations=10.5))},
            r"learner.ppo.iterations must be an integer \(got 10.5\)",
        ),
        ({"learner": 3}, r"learner must be a LearnConfig or a dict of its settings \(got a int\)"),
        ({"explorer": LearnConfig()}, r"explorer must be a FrontierConfig or a dict"),
        ({"baseline": {"hidden": [8]}}, r"baseline has no settings in this run"),
        ({"env.name": "square"}, r"env has no settings of its own"),
        ({"explore": "frontie"}, r"unknown explorer 'frontie'. Did you mean 'frontier'"),
        ({"resume": True}, r"resume needs the run's folder: pass out=DIR"),
        ({"states": [[0.0, 0.0]], "explore": "oracle"}, r"states replace the explorer: leave out explore"),
        ({"states": [[0.0, 0.0, 0.0]]}, r"states has 3 columns, but the states of this env have 2"),
        ({"states": [0.0, 1.0]}, r"states must have one row per state"),
    ],
)
def test_bad_settings_are_rejected_in_the_words_of_python(settings: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        edl.run("square", **settings)


def test_flags_become_arguments():
    assert in_python("Change --num-skills.") == "Change num_skills."
    assert in_python("Continue it with --resume, or choose another --out.") == (
        "Continue it with resume=True, or choose another out."
    )
    assert in_python("Use --learner.distance euclidean.") == "Use learner.distance='euclidean'."
    assert in_python("pass --out DIR.") == "pass out=DIR."
    assert in_python("Change --features, e.g. to '0,1'.") == "Change features, e.g. to '0,1'."
