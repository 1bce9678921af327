"""Stage 3: `learn` a policy for the skills, r = log q(s|z), in the `Distance` that `measure` gives."""

from edl.learn.learn import LearnConfig, learn, measure, paper

__all__ = ["LearnConfig", "learn", "measure", "paper"]
