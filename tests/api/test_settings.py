"""Settings as configs, dicts and dotted names, and the messages about bad ones."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import edl
from edl.api.messages import in_python
from edl.api.settings import build_config
from edl.config import ConfigError
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs.presets import complete


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
    assert build_config("square", {"learner": given}).learner is given


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
