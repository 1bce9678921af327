"""A config survives JSON, and what is wrong in one is named."""

import dataclasses
from typing import Literal

import pytest

from edl import discover as discoverers
from edl.config import ConfigError, config
from edl.runs import stages
from edl.runs.presets import RECIPES
from edl.runs.config import RunConfig, amended, check_name, check_numbers, differences, to_json
from edl.explore.region import Region


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
    assert amended(Outer(), plain, "outer") == saved
    assert amended(Outer(), {"share": 1}, "outer").share == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cuont": 1}, r"'outer\.cuont'.*did you mean 'count'"),
        ({"count": 1.5}, r"outer\.count=1\.5: int"),
        ({"count": True}, r"outer\.count=True: int"),
        ({"count": None}, r"outer\.count=None"),
        ({"share": "a lot"}, r"outer\.share='a lot': float"),
        ({"on": 1}, r"outer\.on=1: bool"),
        ({"mode": "c"}, r"outer\.mode='c': one of 'a', 'b'"),
        ({"name": 3}, r"outer\.name=3: str"),
        ({"inner": 3}, r"outer\.inner=3: an object"),
        ({"inner": {"hidden": [1, "x"]}}, r"outer\.inner\.hidden='x'"),
        ({"inner": {"hidden": 3}}, r"outer\.inner\.hidden=3"),
        ({"num_skills": 3}, "num_skills"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        amended(Outer(), changes, "outer")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Outer(count=0), r"count=0: an integer of at least 1 is wanted.*--outer\.count"),
        (Outer(count=-1), "at least 1"),
        (Outer(patience=-1), "at least 0"),
        (Outer(share=-0.1), "not negative"),
        (Outer(share=float("nan")), "a number is wanted"),
        (Outer(share=float("inf")), "finite"),
        (Outer(inner=Inner(hidden=(3, 0))), r"inner\.hidden"),
        (Outer(inner=Inner(rate=-1.0)), r"--outer\.inner\.rate"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        check_numbers(wrong, "outer")


def test_numbers_in_range_are_not():
    check_numbers(Outer(patience=0, shift=-3.0, limit=float("inf"), share=0.0), "outer")


def test_differences_are_told_by_path():
    one = RunConfig(num_skills=5, region=Region("x>0"), explorer=Outer())
    other = dataclasses.replace(one, num_skills=6, explorer=Outer(inner=Inner(rate=0.25)))
    assert differences(one, one) == []
    assert differences(one, dataclasses.replace(one, region="x>0")) == []
    assert differences(one, other) == ["num_skills was 5 and is now 6", "explorer.inner.rate was 0.5 and is now 0.25"]


def test_the_closest_name_is_suggested():
    check_name("oracle", ["oracle", "frontier"], "explorer")
    with pytest.raises(ConfigError, match="did you mean 'oracle'"):
        check_name("orcale", ["oracle", "frontier"], "explorer 'orcale'")


@pytest.mark.parametrize("preset", RECIPES)
@pytest.mark.parametrize("discover", discoverers.METHODS)
def test_every_preset_passes_its_own_checks(preset, discover):
    settled = stages.settle(RunConfig(preset=preset, explore="oracle", discover=discover))
    assert settled.learner.ppo.iterations == (2500 if preset == "paper" else 800)
