"""Flags of a run so small that it learns nothing, and what its folder contains."""

EXPLORE = ["--explore", "random_walk", "--explorer.iterations", "4", "--explorer.rollouts", "8"]
EXPLORE += ["--explorer.num-samples", "256"]
DISCOVER = ["--discover", "kmeans", "--num-skills", "3"]
LEARN = ["--learner.distance", "euclidean", "--learner.ppo.iterations", "40", "--learner.ppo.rollouts", "4"]
LEARN += ["--learner.ppo.epochs", "1", "--learner.ppo.minibatches", "2", "--learner.ppo.hidden", "8"]
TINY = [*EXPLORE, *DISCOVER, *LEARN]
FILES = {"config.json", "provenance.json", "states.safetensors", "skills.safetensors", "policy.safetensors"}
FILES |= {"manifest.json", "metrics.json", "log.jsonl", "checkpoint", "figures", "report.html"}
