"""Figure 2, "Exploration with SMM": the square maze with and without an oracle."""

import numpy as np
from jaxtyping import Float

from edl.artifacts import States
from edl.envs.layouts import Layout
from edl.paper import recipes
from edl.paper.figure import (
    BASELINES,
    LABELS,
    FigureResult,
    PaperFigure,
    Picture,
    better_run,
    metric_phrase,
    note,
    rollout_panel,
    scores,
)
from edl.paper.measurements import MAJORITY, Runs, play_run, run_numbers
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Part, Scores, Verdict, at_most, greater, judge, not_greater

ENV = "square"
RIGHT = 2.5
"""x at which the right side begins: the corridor that is reached only by a detour."""
HALF_A_SKILL = 0.5
"""If the mean number of skills per seed that reach the right side is below this, most seeds have none."""
NEAR_WALL = 0.1
"""A sample is near a wall if it is at most this far from it."""
SLIGHT = 0.25
"""The largest loss of best-skill distance that counts as a slight difference: a quarter of a cell."""
PANELS = (BASELINES, ("siblings", "smm"), ("walking", "smm_walking"))


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, and EDL with an oracle and with SMM: with the paper's learner, and with ours."""
    siblings = recipes.sibling_rivalry(settings, ENV)
    return {
        **{method: recipes.baseline(settings, ENV, method) for method in BASELINES},
        "siblings": recipes.edl(settings, ENV, "oracle", siblings),
        "smm": recipes.edl(settings, ENV, "smm", siblings),
        "walking": recipes.ours(settings, ENV, "oracle"),
        "smm_walking": recipes.ours(settings, ENV, "smm"),
    }


def build(runs: Runs) -> FigureResult:
    """Rollouts, and the number of skills that reach the right side."""
    from edl.figures.panels import Panel, panels_figure

    played = {label: play_run(run) for label, run in runs.items()}
    layout = runs["smm"].layout
    assert layout is not None
    right = {label: right_skills(np.asarray(episodes.features)) for label, episodes in played.items()}
    walls = {label: near_wall_share(layout, runs[label].states) for label in ("siblings", "smm")}

    def panel(label: str) -> Panel:
        return rollout_panel(runs[label], played[label], LABELS[label], note(runs[label], "best_skill_distance"))

    figure = panels_figure([[panel(label) for label in row] for row in PANELS])
    caption = (
        "Top: baselines. Middle: EDL as in the paper, with an oracle and with State Marginal Matching instead of it. "
        "Bottom: the same with our walking distance instead of siblings."
    )
    numbers = {"runs": run_numbers(runs), "skills_on_the_right": right, "samples_near_walls": walls}
    return FigureResult({"": Picture(figure, caption)}, verdicts(runs, right, walls), numbers)


def right_skills(paths: Float[np.ndarray, "seeds k n t 2"]) -> list[float]:
    """Number of skills per seed of which most rollouts reach the right side, at any step."""
    reached = np.any(paths[..., 0] > RIGHT, axis=3)
    return np.sum(reached.mean(axis=2) > MAJORITY, axis=1).astype(float).tolist()


def near_wall_share(layout: Layout, states: States | None) -> list[float]:
    """Share of each seed's samples of p(s) that are near a wall."""
    assert states is not None
    samples = np.asarray(states.samples, float)
    return [float(np.mean(distance_to_walls(layout, each) < NEAR_WALL)) for each in samples]


def distance_to_walls(layout: Layout, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Distance of each point to the nearest wall."""
    start, direction = layout.walls[:, 0], layout.walls[:, 1] - layout.walls[:, 0]
    along = np.einsum("nwd,wd->nw", points[:, None] - start, direction) / np.sum(direction**2, axis=1)
    nearest = start + np.clip(along, 0, 1)[..., None] * direction
    return np.min(np.linalg.norm(points[:, None] - nearest, axis=-1), axis=1)


def verdicts(runs: Runs, right: dict[str, list[float]], walls: dict[str, list[float]]) -> list[Verdict]:
    """The paper's claims about exploration with SMM, and one of ours."""
    reach = "number of skills that reach the right side"
    on_the_right = {label: Scores(LABELS[label], values) for label, values in right.items()}

    def covers(label: str) -> list[Part]:
        """The run is better than each baseline, and more of its skills reach the right side."""
        nearer = [better_run(runs, "best_skill_distance", label, x) for x in BASELINES]
        return nearer + [greater(reach, on_the_right[label], on_the_right[x]) for x in BASELINES]

    better_than_baselines = (
        "The best skill ends nearer to a random point, and more skills reach the right side, than with each baseline."
    )
    return [
        judge(
            "Baselines fail at discovering skills that reach the right side of the maze.",
            "In most seeds of each baseline there is no skill of which most rollouts reach the right side: the mean "
            f"number per seed is at most {HALF_A_SKILL:g}.",
            [at_most(reach, on_the_right[label], HALF_A_SKILL) for label in BASELINES],
        ),
        judge(
            "The forward and reverse baselines already fail to learn state-covering skills [where EDL with an oracle "
            "succeeds].",
            better_than_baselines,
            covers("siblings"),
        ),
        judge(
            "EDL can learn state-covering skills even in the realistic scenario where an oracle is not available.",
            better_than_baselines,
            covers("smm"),
        ),
        judge(
            "EDL discovers skills that are spread across the whole maze, even when replacing the oracle with SMM.",
            f"With SMM, the best skill ends at most {SLIGHT:g} cells farther from a random point than with the oracle.",
            [
                not_greater(
                    metric_phrase("best_skill_distance"),
                    *(scores(runs, label, "best_skill_distance") for label in ("smm", "siblings")),
                    slack=SLIGHT,
                )
            ],
        ),
        judge(
            "SMM tended to collect more samples near the walls.",
            f"A greater share of SMM's samples than of the oracle's is within {NEAR_WALL:g} of a wall.",
            [
                greater(
                    "share of samples near a wall",
                    *(Scores(name, walls[label]) for name, label in (("SMM", "smm"), ("oracle", "siblings"))),
                )
            ],
        ),
        judge(
            "EDL with SMM and walking distance learns state-covering skills, too.",
            better_than_baselines,
            covers("smm_walking"),
            source="ours",
        ),
    ]


FIGURE = PaperFigure("Exploration with SMM instead of an oracle", define_runs, build)
