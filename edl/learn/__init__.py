"""Stage 3: `learn` a policy for the skills with the reward r = log q(s|z).

The reward depends on a `Distance`. `measure` estimates walking distance from experience, `place` moves goals that are
badly placed in that distance, and `distance_for` returns the distance that a config names.
``edl.learn("square", skills)`` runs this stage: see `edl.api.stages`.
"""

from edl.callable_package import make_callable
from edl.learn.learn import LearnConfig, distance_for, learn, measure, paper
from edl.learn.placement import place

__all__ = ["LearnConfig", "distance_for", "learn", "measure", "paper", "place"]

make_callable(__name__)
