"""Settings of tables so small that nothing is learned."""

import dataclasses

from edl.discover.kmeans import KMeansConfig
from edl.explore.beyond import BeyondConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.tables import TableSettings
from tests.laws.cases import shrink

PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))


def tiny(config):
    """The same run with a fast explorer and discoverer, and small networks."""
    explorer = {"explore": "random_walk", "explorer": RandomWalkConfig(iterations=4, rollouts=8, num_samples=256)}
    if config.method != "edl":
        changes = {} if config.explorer is None else explorer
        return dataclasses.replace(config, num_skills=3, baseline=shrink(config.baseline), **changes)
    learner = dataclasses.replace(
        LearnConfig(distance="euclidean", focus=config.learner.focus),
        ppo=dataclasses.replace(
            PPO,
            entropy_weight=config.learner.ppo.entropy_weight,
            learning_rate=config.learner.ppo.learning_rate,
            last_learning_rate=config.learner.ppo.last_learning_rate,
        ),
    )
    changes = {"num_skills": 3, "discover": "kmeans", "discoverer": KMeansConfig(), "learner": learner, "scout": None}
    if config.explore == "tldr":
        changes |= {"explorer": shrink(config.explorer)}
    elif config.explore != "oracle":
        changes |= explorer
    return dataclasses.replace(config, **changes)


def tiny_robot(config, **changes):
    """The same run of EDL with the explorer of robots, k-means and small networks."""
    explorer = BeyondConfig(
        iterations=3, rollouts=8, hidden=(8,), epochs=1, minibatches=2, cells=64, episodes=8, num_samples=64
    )
    return dataclasses.replace(
        config,
        num_skills=3,
        explore="beyond",
        explorer=explorer,
        discover="kmeans",
        discoverer=KMeansConfig(),
        learner=LearnConfig(distance="euclidean", ppo=PPO),
        scout=None,
        **changes,
    )


SETTINGS = TableSettings(
    num_seeds=2,
    tuning_seeds=1,
    maze_seeds=1,
    many_seeds=3,
    num_mazes=2,
    steps=8000,
    methods=("reverse_mi", "edl"),
    mazes=("square",),
    adjust=tiny,
)
