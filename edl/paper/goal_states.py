"""The appendix's figure of goal states: g_z = argmax_s q(s|z) of forward MI and of EDL.

The q(s|z) of forward MI is Gaussian with variance 1/2 in each dimension around one mean per skill. Its
maximum-likelihood fit to a set of visits has a closed form, whatever the variance is: the mean of the states that the
skill visits. We use this exact fit, because the model that was trained along with the policy may not have converged.
"""

import numpy as np
from jaxtyping import Float

from edl.evaluate import Evaluator, maze_evaluator
from edl.paper import recipes
from edl.paper.bottleneck import ENV, ROOM
from edl.paper.figure import LABELS, FigureResult, PaperFigure, Picture
from edl.paper.measurements import Runs, first_seed_paths, play_run
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, at_least, judge, less

SHOWN = ("forward_mi", "siblings", "ours")


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Forward MI, EDL as in the paper, and our EDL."""
    return {
        "forward_mi": recipes.baseline(settings, ENV, "forward_mi"),
        "siblings": recipes.edl(settings, ENV, "oracle", recipes.sibling_rivalry(settings, ENV)),
        "ours": recipes.ours(settings, ENV, "frontier"),
    }


def build(runs: Runs) -> FigureResult:
    """The goals of each method; for forward MI, over the rollouts to which q(s|z) is fitted."""
    from edl.figures.panels import Panel, panels_figure

    layout = runs["ours"].layout
    assert layout is not None
    episodes = play_run(runs["forward_mi"])
    paper, ours = runs["siblings"].skills, runs["ours"].skills
    assert paper is not None
    assert ours is not None
    goals = {
        "forward_mi": visit_means(np.asarray(episodes.features)),
        "siblings": np.asarray(paper.decoded),
        "ours": np.asarray(ours.goals),  # they may be moved off walls
    }
    evaluator = maze_evaluator(layout)
    distances = {label: [distance_to_nearest(evaluator, each) for each in goals[label]] for label in SHOWN}
    row = [
        Panel(
            layout,
            LABELS[label],
            f"a point of the maze is {distances[label][0]:.2f} from the nearest goal",
            first_seed_paths(episodes) if label == "forward_mi" else None,
            goals[label][0],
        )
        for label in SHOWN
    ]
    caption = (
        "Goal states g_z = argmax q(s|z). Left: forward MI, over the rollouts to which q(s|z) is fitted. Middle and "
        "right: EDL."
    )
    picture = Picture(panels_figure([row]), caption)
    in_room = np.mean(np.all(goals["forward_mi"] < ROOM, axis=-1), axis=1).tolist()
    numbers = {"to_nearest_goal": distances, "forward_mi_goals_in_first_room": in_room}
    return FigureResult({"": picture}, verdicts(distances, in_room), numbers)


def visit_means(features: Float[np.ndarray, "seeds k n t1 s"]) -> Float[np.ndarray, "seeds k s"]:
    """argmax_s q(s|z) of the Gaussian with a fixed variance that is fitted to the visits of each skill."""
    return np.mean(features[..., 1:, :], axis=(2, 3))


def distance_to_nearest(evaluator: Evaluator, goals: Float[np.ndarray, "k 2"]) -> float:
    """Mean walking distance from a random point of the maze to the nearest goal. Goals outside the maze are ignored."""
    distances = np.min(evaluator.distance(goals.astype(float), evaluator.targets), axis=0)
    reachable = np.isfinite(distances)
    largest = np.nanmax(np.where(reachable, distances, np.nan))
    return float(np.mean(np.where(reachable, distances, largest)))


def verdicts(distances: dict[str, list[float]], in_room: list[float]) -> list[Verdict]:
    """The paper's claims about goals, and ours."""
    scores = {label: Scores(LABELS[label], values) for label, values in distances.items()}
    what = "walking distance from a random point to the nearest goal"
    nearer = "A random point of the maze is nearer to one of EDL's goals than to one of forward MI's."
    return [
        judge(
            "This policy [of forward MI] seldom leaves the initial room, limiting the goals that can be discovered.",
            "More than half of its goals are in the room of the start.",
            [at_least("share of goals in the first room", Scores(LABELS["forward_mi"], in_room), 0.5)],
        ),
        judge(
            "The uniform distribution over states in EDL enables the discovery of goals across the whole maze.",
            nearer,
            [less(what, scores["siblings"], scores["forward_mi"])],
        ),
        judge(
            "EDL discovers goals across the whole maze without an oracle.",
            nearer,
            [less(what, scores["ours"], scores["forward_mi"])],
            source="ours",
        ),
    ]


FIGURE = PaperFigure("Goal states of forward MI and of EDL", define_runs, build)
