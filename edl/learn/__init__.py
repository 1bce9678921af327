"""Stage 3: `learn` a policy for the skills, r = log q(s|z), in the `Distance` that `measure` gives.

Before it learns, `place` looks whether the goals of the skills are well placed in that distance.
"""

from edl.learn.learn import LearnConfig, learn, measure, paper
from edl.learn.placement import place

__all__ = ["LearnConfig", "learn", "measure", "paper", "place"]
