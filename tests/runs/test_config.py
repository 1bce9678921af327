"""A config survives JSON, and messages name the setting that is wrong."""

import dataclasses
from typing import Literal

import pytest

from edl import discover as discoverers
from edl.config import ConfigError, check_name, check_numbers, config
from edl.explore.region import Region
from edl.rl.sac import SACConfig
from edl.runs.config import RunConfig, differences, to_json, with_changes
from edl.runs.presets import RECIPES
from edl.runs.resolve import resolve_config


@config
class Inner:
    """A nested config."""

    rate: float = 0.5
    hidden: tuple[int, ...] = (4, 4)


@config
class Outer:
    """One of each kind of field."""

    count: int = 3
    patience: int = 0
    shift: float = -1.0
    limit: float = float("inf")
    share: float = 0.5
    on: bool = False
    mode: Literal["a", "b"] = "a"
    name: str = "x"
    maybe: float | None = None
    region: object = None
    num_skills: int = 10
    inner: Inner = Inner()


def test_json_and_back_is_the_identity():
    saved = Outer(count=5, limit=float("inf"), mode="b", maybe=2.0, on=True, inner=Inner(rate=1.0, hidden=(1, 2, 3)))
    plain = to_json(saved)
    assert plain["limit"] == "inf"
    assert plain["inner"] == {"rate": 1.0, "hidden": [1, 2, 3]}
    assert "num_skills" not in plain
    assert with_changes(Outer(), plain, "outer") == saved
    assert with_changes(Outer(), {"share": 1}, "outer").share == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cuont": 1}, r"unknown setting in outer: 'cuont'\. Did you mean 'count'"),
        ({"count": 1.5}, r"outer\.count must be an integer \(got 1\.5\)"),
        ({"count": True}, r"outer\.count must be an integer \(got True\)"),
        ({"count": None}, r"outer\.count must be an integer \(got None\)"),
        ({"share": "a lot"}, r"outer\.share must be a number \(got 'a lot'\)"),
        ({"on": 1}, r"outer\.on must be true or false \(got 1\)"),
        ({"mode": "c"}, r"outer\.mode must be one of 'a', 'b' \(got 'c'\)"),
        ({"name": 3}, r"outer\.name must be a text \(got 3\)"),
        ({"inner": 3}, r"outer\.inner must be an object of settings \(got 3\)"),
        ({"inner": {"hidden": [1, "x"]}}, r"outer\.inner\.hidden must be an integer \(got 'x'\)"),
        ({"inner": {"hidden": 3}}, r"outer\.inner\.hidden must be .* \(got 3\)"),
        ({"num_skills": 3}, "num_skills"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        with_changes(Outer(), changes, "outer")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Outer(count=0), r"outer\.count must be an integer of at least 1 \(got 0\)\. Change --outer\.count"),
        (Outer(count=-1), "at least 1"),
        (Outer(patience=-1), "at least 0"),
        (Outer(share=-0.1), r"outer\.share must be at least 0"),
        (Outer(share=float("nan")), "must be a number"),
        (Outer(share=float("inf")), "finite"),
        (Outer(inner=Inner(hidden=(3, 0))), r"inner\.hidden"),
        (Outer(inner=Inner(rate=-1.0)), r"--outer\.inner\.rate"),
    ],
)
def test_numbers_out_of_range_are_rejected(wrong, message):
    with pytest.raises(ConfigError, match=message):
        check_numbers(wrong, "outer")


def test_numbers_in_range_are_accepted():
    check_numbers(Outer(patience=0, shift=-3.0, limit=float("inf"), share=0.0), "outer")


def test_differences_are_listed_by_path():
    one = RunConfig(num_skills=5, region=Region("x>0"), explorer=Outer())
    other = dataclasses.replace(one, num_skills=6, explorer=Outer(inner=Inner(rate=0.25)))
    assert differences(one, one) == []
    assert differences(one, dataclasses.replace(one, region="x>0")) == []
    assert differences(one, other) == ["num_skills was 5 and is now 6", "explorer.inner.rate was 0.5 and is now 0.25"]


def test_of_long_texts_only_the_first_line_that_differs_is_shown():
    one = RunConfig(maze="<a>\n<b/>\n</a>")
    assert differences(one, dataclasses.replace(one, maze="<a>\n<c/>\n</a>")) == [
        "line 2 of maze was '<b/>' and is now '<c/>'"
    ]
    assert differences(one, dataclasses.replace(one, maze="<a>\n<b/>\n</a>\n")) == [
        "line 4 of maze was None and is now ''"
    ]


def test_the_closest_name_is_suggested():
    check_name("oracle", ["oracle", "frontier"], "explorer")
    with pytest.raises(
        ConfigError, match=r"unknown explorer 'orcale'\. Did you mean 'oracle'\? Available: oracle, frontier"
    ):
        check_name("orcale", ["oracle", "frontier"], "explorer")


def test_configs_of_edl_0_1_can_be_read():
    saved = {"iterations": 7, "recall": 32, "refresh": False, "keep_actions": 0.5}
    read = with_changes(SACConfig(), saved, "sac")
    assert (read.iterations, read.objective_batch_size, read.refresh_rewards) == (7, 32, False)
    assert read.target_entropy_share == 0.5


@pytest.mark.parametrize("preset", RECIPES)
@pytest.mark.parametrize("discover", discoverers.METHODS)
def test_every_preset_passes_its_own_checks(preset, discover):
    resolved = resolve_config(RunConfig(preset=preset, explore="oracle", discover=discover))
    assert resolved.learner.ppo.iterations == (2500 if preset == "paper" else 800)
