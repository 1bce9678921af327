"""The plan of a sweep: every lane is in one chunk, shared stages run once, and nothing but the grid decides it."""

import itertools

import pytest

from edl.runs import grid as grids
from edl.runs.chunks import ChunkPoint, lanes_per_chunk, plan_chunks
from edl.runs.pipeline import identity, plan

RUN = {
    "env": "square",
    "explore": "random_walk",
    "discover": "kmeans",
    "num_skills": 3,
    "num_seeds": 2,
    "explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256},
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 2, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    },
}


def planned(grid, lanes, **changes):
    found = grids.parse({"run": RUN | changes, "grid": grid}, "sweep.json")
    return found, plan_chunks([[ChunkPoint(p.name, p.config) for p in group] for group in found.groups], lanes)


@pytest.mark.parametrize("lanes", [1, 3, 8, 100])
@pytest.mark.parametrize(
    "grid",
    [
        {"learner.ppo.gamma": [0.9, 0.95, 0.99]},
        {"learner.ppo.gamma": [0.9, 0.99], "num_skills": [3, 4], "num_seeds": [1, 3]},
        {"env": ["square", "random:3x3?seed=1"], "learner.epsilon": [1.0, 2.0]},
    ],
)
def test_every_stage_of_every_point_is_made_once_and_after_its_inputs(grid, lanes):
    found, chunks = planned(grid, lanes)
    made: dict[str, str] = {}
    finished = set()
    for chunk in chunks:
        assert set(chunk.needs) <= finished
        finished.add(chunk.name)
        new = {}
        for point in chunk.points:
            for stage in plan(point.config, chunk.until):
                name = f"{chunk.program[:3]} {identity(stage, point.config)}"  # groups share nothing
                if not stage.temporary and made.get(name) not in chunk.needs:
                    new[name] = chunk.name
        assert not new.keys() & made.keys()
        made |= new
        assert chunk.widths[chunk.until] <= max(lanes, *(point.config.num_seeds for point in found.points))
    last = [point.name for chunk in chunks if chunk.last for point in chunk.points]
    assert sorted(last) == [point.name for point in found.points]
    assert sum(chunk.lanes for chunk in chunks) == sum(point.config.num_seeds for point in found.points)


def test_points_that_differ_in_learning_share_a_chunk_that_explores():
    _, chunks = planned({"learner.ppo.gamma": [0.9, 0.95, 0.99]}, 4)
    assert [(chunk.until, len(chunk.points), chunk.last) for chunk in chunks] == [
        ("discover", 3, False),
        ("learn", 2, True),
        ("learn", 1, True),
    ]
    assert chunks[0].widths["explore"] == 2
    assert {chunk.widths["learn"] for chunk in chunks[1:]} == {4}  # the second is filled, so that both share a program
    assert chunks[1].program == chunks[2].program
    assert chunks[2].needs == (chunks[0].name,)


def test_by_default_every_point_is_a_chunk_on_a_cpu_and_all_are_one_on_a_gpu():
    grid = {"learner.ppo.gamma": [0.9, 0.95, 0.99], "num_seeds": [1, 2]}
    _, chunks = planned(grid, lanes_per_chunk("cpu"))
    assert [len(chunk.points) for chunk in chunks if chunk.last] == [1] * 6
    _, chunks = planned(grid, lanes_per_chunk("gpu"))
    assert [len(chunk.points) for chunk in chunks if chunk.last] == [6]


def test_points_that_differ_in_exploring_run_all_stages_in_one_chunk():
    _, chunks = planned({"seed": [0, 10, 20, 30]}, 4)
    assert [(chunk.until, len(chunk.points), chunk.needs) for chunk in chunks] == [("learn", 2, ()), ("learn", 2, ())]


def test_chunks_of_mazes_know_all_mazes_of_their_group():
    _, chunks = planned({"env": ["square", "random:3x3?seed=1", "corridor_left"]}, 2)
    assert [len(chunk.envs) for chunk in chunks] == [3] * len(chunks)
    assert len(set(itertools.chain(*(chunk.envs for chunk in chunks)))) == 3
