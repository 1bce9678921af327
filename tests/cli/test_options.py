"""From flags to a config: flags override a saved config, which overrides the preset."""

from edl.cli import options


def test_flags_override_a_config_that_overrides_the_preset(finished):
    saved = ["--config", str(finished / "config.json")]
    base = options.starting_point(saved)
    assert (base.explore, base.num_skills, base.learner.ppo.iterations) == ("random_walk", 3, 40)
    other = options.starting_point([*saved, "--explore", "oracle"])
    assert type(other.explorer).__name__ == "OracleConfig"
    assert other.learner.ppo.iterations == 40
    words = [*saved, "--learner.ppo.iterations", "7"]
    parsed = options.read(words, base, "edl run", "", {"config": options.FLAGS["config"]}, ["learner"])
    assert options.merged(base, parsed).learner.ppo.iterations == 7


def test_a_preset_gives_the_defaults():
    assert options.starting_point(["--preset", "paper"]).learner.rivalry
    assert options.starting_point(["--preset=paper"]).learner.rivalry
    assert not options.starting_point([]).learner.rivalry


def test_the_last_value_of_a_flag_counts():
    words = ["--num_seeds", "1", "--env=tree", "--num-seeds", "2", "--env", "square", "--out"]
    assert options.given(words, "num_seeds") == "2"
    assert options.given(words, "env") == "square"
    assert options.given(words, "out") is None
    assert options.given(words, "config") is None


def timed(*words):
    words = ("--env", "Pendulum-v1", *words)
    base = options.starting_point(words)
    return options.merged(base, options.read(words, base, "edl run", "", options.FLAGS, ("explorer", "learner"))).timed


def test_the_policy_sees_the_time_left_if_the_learner_needs_it_or_the_user_asks_for_it():
    assert timed("--explore", "drift")
    assert not timed("--explore", "drift", "--learner.algorithm", "ppo")
    assert timed("--explore", "drift", "--learner.algorithm", "ppo", "--timed", "True")
    assert not timed("--timed", "False")
