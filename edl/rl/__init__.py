"""The learners, PPO and SAC, each written once against `Objective`."""
