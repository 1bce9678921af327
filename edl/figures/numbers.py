"""The metrics of a run as HTML: one tile for each main metric with its random baseline, and a table of all seeds."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from edl.envs.success import SUCCESS_RADIUS
from edl.evaluate.metrics import METRICS, NOT_METRICS, format_number, label_of

MISSING = "—"


def tiles(metrics: Mapping[str, Any]) -> str:
    """One tile for every metric with ``in_tiles`` for which the run has a number."""
    names = [name for name, metric in METRICS.items() if metric.in_tiles]
    known = ((name, mean_of(metrics, name), random_of(metrics, name)) for name in names)
    return "\n".join(_tile(metrics, name, mean, random) for name, mean, random in known if mean is not None)


def table(metrics: Mapping[str, Any]) -> str:
    """One row per seed, then mean, interquartile mean, 95 % interval and random actions."""
    seeds: Sequence[Mapping[str, Any]] = metrics.get("per_seed") or []
    names = [name for name in _names(seeds) if any(finite_number(seed.get(name)) is not None for seed in seeds)]
    head = "".join(f'<th scope="col">{html.escape(label_of(name))}</th>' for name in names)
    rows = [
        _row(f"seed {seed.get('seed', i)}", [format_value(n, seed.get(n)) for n in names])
        for i, seed in enumerate(seeds)
    ]
    rows += [
        _row("mean", [format_value(name, mean_of(metrics, name)) for name in names], "total first"),
        _row(
            "interquartile mean", [format_value(name, _aggregate(metrics, name).get("iqm")) for name in names], "total"
        ),
        _row("95% interval", [interval(metrics, name) or MISSING for name in names]),
        _row("random actions", [format_value(name, random_of(metrics, name)) for name in names], "random"),
    ]
    return f'<table><thead><tr><th scope="col"></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def format_value(name: str, value: Any) -> str:
    """The value in the format of its metric; a dash if it is not a number."""
    number = finite_number(value)
    if number is None:
        return MISSING
    return METRICS[name].format(number) if name in METRICS else format_number(number)


def mean_of(metrics: Mapping[str, Any], name: str) -> float | None:
    """The mean over seeds."""
    return finite_number(_aggregate(metrics, name).get("mean"))


def random_of(metrics: Mapping[str, Any], name: str) -> float | None:
    """The metric of random actions; in the file it is a number, or a summary with a mean."""
    value = (metrics.get("random") or {}).get(name)
    return finite_number(value.get("mean") if isinstance(value, Mapping) else value)


def interval(metrics: Mapping[str, Any], name: str) -> str | None:
    """The 95 % interval; None for a single seed."""
    low, high = (finite_number(end) for end in _aggregate(metrics, name).get("ci95") or (None, None))
    if low is None or high is None or len(metrics.get("per_seed") or []) < 2:
        return None
    return f"{format_value(name, low)} to {format_value(name, high)}"


def _tile(metrics: Mapping[str, Any], name: str, mean: float, random: float | None) -> str:
    metric = METRICS[name]
    spread = interval(metrics, name)
    seeds = f"<p>95% interval {spread}</p>" if spread else ""
    meter = ""
    if metric.is_share:
        mark = "" if random is None else f'<u style="left:calc({_percent(random)} - 1px)"></u>'
        meter = f'<div class="meter"><i style="width:{_percent(mean)}"></i>{mark}</div>'
    meaning = metric.describe(*distance_facts(metrics))
    chance = "" if random is None else f"<small>random {format_value(name, random)}</small>"
    return (
        f'<div class="card tile" data-metric="{name}"><h3>{metric.label}</h3>'
        f'<div class="value"><span>{format_value(name, mean)}</span>{chance}</div>{meter}'
        f"<p>{html.escape(meaning)}</p>{seeds}</div>"
    )


def _names(seeds: Sequence[Mapping[str, Any]]) -> list[str]:
    """Known metrics in the order of `METRICS`, then all others."""
    given = dict.fromkeys(name for seed in seeds for name in seed if name not in NOT_METRICS)
    return [name for name in METRICS if name in given] + [name for name in given if name not in METRICS]


def _row(name: str, cells: Sequence[str], style: str = "") -> str:
    values = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{style}"><th scope="row">{html.escape(name)}</th>{values}</tr>'


def _aggregate(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (metrics.get("aggregate") or {}).get(name) or {}


def distance_facts(metrics: Mapping[str, Any]) -> tuple[str, float]:
    """The unit of distances, and the distance within which a goal is reached (until edl 0.2 always the same)."""
    radius = finite_number(metrics.get("success_radius"))
    return str(metrics.get("distance_unit") or ""), SUCCESS_RADIUS if radius is None else radius


def finite_number(value: Any) -> float | None:
    """The value as a float; None if it is not a finite number. JSON may contain anything here."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%"
