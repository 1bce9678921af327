"""The numbers of a run as HTML: a tile for each that matters, with what random actions give, a table of all seeds."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Quantity(NamedTuple):
    """How a metric is called, written and explained. A ``share`` lies in [0, 1] and is shown as a percentage."""

    label: str
    meaning: str
    share: bool = False


QUANTITIES = {
    "goal_success": Quantity("Goals reached", "rollouts that end within 0.5 of their skill's goal", share=True),
    "goal_distance": Quantity("Distance to the goal", "from the end of a rollout to its skill's goal"),
    "skill_coverage": Quantity("Skill coverage", "of the reachable cells are visited by some skill", share=True),
    "data_coverage": Quantity("Data coverage", "of the reachable bins were explored", share=True),
    "data_coverage_100k": Quantity("Data coverage, 100k", "the same, after 100,000 steps", share=True),
    "zero_shot_distance": Quantity("Zero-shot distance", "left to any point, with the best skill for it"),
    "zero_shot_picked_distance": Quantity("Zero-shot distance, picked", "the same, with the skill that q(z|s) names"),
    "mutual_information": Quantity("I(S;Z)", "nats between a state's cell and its skill"),
    "discriminability": Quantity("Discriminability", "of the states are told by a fresh classifier", share=True),
}


TILES = tuple(
    name for name in QUANTITIES if name not in ("data_coverage_100k", "zero_shot_picked_distance", "discriminability")
)
NOTHING = "—"


def tiles(metrics: Mapping[str, Any]) -> str:
    """One tile for every metric of `TILES` that the run has a number for."""
    known = ((name, mean_of(metrics, name), random_of(metrics, name)) for name in TILES)
    return "\n".join(_tile(metrics, name, mean, random) for name, mean, random in known if mean is not None)


def table(metrics: Mapping[str, Any]) -> str:
    """A row for each seed, then mean, interquartile mean, 95 % interval and random actions."""
    seeds: Sequence[Mapping[str, Any]] = metrics.get("per_seed") or []
    names = [name for name in _names(seeds) if any(_number(seed.get(name)) is not None for seed in seeds)]
    head = "".join(f'<th scope="col">{html.escape(label_of(name))}</th>' for name in names)
    rows = [_row(f"seed {seed.get('seed', i)}", [write(n, seed.get(n)) for n in names]) for i, seed in enumerate(seeds)]
    rows += [
        _row("mean", [write(name, mean_of(metrics, name)) for name in names], "total first"),
        _row("interquartile mean", [write(name, _aggregate(metrics, name).get("iqm")) for name in names], "total"),
        _row("95% interval", [interval(metrics, name) or NOTHING for name in names]),
        _row("random actions", [write(name, random_of(metrics, name)) for name in names], "random"),
    ]
    return f'<table><thead><tr><th scope="col"></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def write(name: str, value: Any) -> str:
    """A number in the manner of its metric: percentages for shares, a dash for what there is not."""
    number = _number(value)
    if number is None:
        return NOTHING
    if name in QUANTITIES and QUANTITIES[name].share:
        return f"{100 * number:.1f}%".replace("100.0", "100")
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}" if abs(number) >= 100 else f"{number:.2f}"


def mean_of(metrics: Mapping[str, Any], name: str) -> float | None:
    """The mean over seeds."""
    return _number(_aggregate(metrics, name).get("mean"))


def random_of(metrics: Mapping[str, Any], name: str) -> float | None:
    """What random actions give: a number, or a summary with its mean."""
    value = (metrics.get("random") or {}).get(name)
    return _number(value.get("mean") if isinstance(value, Mapping) else value)


def interval(metrics: Mapping[str, Any], name: str) -> str | None:
    """The 95 % interval; None where a single seed gives none."""
    low, high = (_number(end) for end in _aggregate(metrics, name).get("ci95") or (None, None))
    if low is None or high is None or len(metrics.get("per_seed") or []) < 2:
        return None
    return f"{write(name, low)} to {write(name, high)}"


def label_of(name: str) -> str:
    """The metric's name in words."""
    return QUANTITIES[name].label if name in QUANTITIES else name.replace("_", " ").capitalize()


def _tile(metrics: Mapping[str, Any], name: str, mean: float, random: float | None) -> str:
    quantity = QUANTITIES[name]
    spread = interval(metrics, name)
    seeds = f"<p>95% interval {spread}</p>" if spread else ""
    meter = ""
    if quantity.share:
        mark = "" if random is None else f'<u style="left:calc({_percent(random)} - 1px)"></u>'
        meter = f'<div class="meter"><i style="width:{_percent(mean)}"></i>{mark}</div>'
    chance = "" if random is None else f"<small>random {write(name, random)}</small>"
    return (
        f'<div class="card tile" data-metric="{name}"><h3>{quantity.label}</h3>'
        f'<div class="value"><span>{write(name, mean)}</span>{chance}</div>{meter}'
        f"<p>{html.escape(quantity.meaning)}</p>{seeds}</div>"
    )


def _names(seeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """Known metrics first, in the order of `QUANTITIES`; then whatever else there is."""
    given = dict.fromkeys(name for seed in seeds for name in seed if name != "seed")
    return [name for name in QUANTITIES if name in given] + [name for name in given if name not in QUANTITIES]


def _row(name: str, cells: Sequence[str], style: str = "") -> str:
    values = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{style}"><th scope="row">{html.escape(name)}</th>{values}</tr>'


def _aggregate(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (metrics.get("aggregate") or {}).get(name) or {}


def _number(value: Any) -> float | None:
    """A finite number, or None. JSON may bring anything here."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%"
