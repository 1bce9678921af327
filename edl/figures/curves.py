"""Learning curves from the rows of a run's log: mean and range over seeds, over environment steps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from edl.evaluate.metrics import METRICS, label_of
from edl.figures.style import ACCENT, INK, MUTED, SIDE, plot_figure, write_title

MAX_POINTS = 200


def curves_figure(
    rows: Iterable[Mapping[str, Any]],
    keys: Sequence[str] = ("goal_success", "goal_distance", "return"),
    random: Mapping[str, float | None] | None = None,
    stage: str = "learn",
) -> Figure | None:
    """One panel for each of ``keys`` in the log of ``stage``; None if it has none. Dashed lines are random actions.

    A row is a flat dict with ``env_steps`` and optionally ``stage``. A value is a list with one number per seed, or a
    number; then ``seed`` in the row distinguishes several seeds.
    """
    rows = [row for row in rows if row.get("stage", stage) == stage]
    found = {key: series for key in keys if (series := curve(rows, key)) is not None}
    if not found:
        return None
    figure, panels = plot_figure(3.3 if len(found) > 1 else SIDE, 2.8, columns=len(found))
    for axes, (key, (steps, values)) in zip(panels, found.items(), strict=True):
        draw_metric(axes, key, steps, values)
        level = (random or {}).get(key)
        if level is not None and np.isfinite(level):
            axes.axhline(level, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
            axes.annotate("random", (1, level), xycoords=("axes fraction", "data"), xytext=(-2, 2),
                          textcoords="offset points", ha="right", va="bottom", fontsize=8, color=MUTED)  # fmt: skip
    return figure


def curve(
    rows: Sequence[Mapping[str, Any]], key: str
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, "n t"]] | None:
    """Steps, and one row of values per seed; seeds logged at different steps are interpolated to common steps."""
    seeds: dict[Any, list[tuple[float, float]]] = {}
    for row in rows:
        value, steps = row.get(key), row.get("env_steps")
        if value is None or steps is None:
            continue
        values = dict(enumerate(value)) if isinstance(value, Sequence | np.ndarray) else {row.get("seed", 0): value}
        for seed, number in values.items():
            if number is not None and np.isfinite(number):
                seeds.setdefault(seed, []).append((float(steps), float(number)))
    if not seeds:
        return None
    lines = [np.array(sorted(points)).T for _, points in sorted(seeds.items())]
    # Only the range that every seed covers: the mean would jump where a seed ends.
    first, last = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    steps = np.unique(np.concatenate([x for x, _ in lines]))
    steps = steps[(steps >= first) & (steps <= last)]
    if steps.size == 0:
        return None
    return thin_curve(steps, np.stack([np.interp(steps, *line) for line in lines]))


def thin_curve(
    steps: Float[np.ndarray, " t"], values: Float[np.ndarray, "n t"]
) -> tuple[Float[np.ndarray, " u"], Float[np.ndarray, "n u"]]:
    """Averages over at most `MAX_POINTS` groups of neighbouring points: more points would only show noise."""
    groups = np.array_split(np.arange(len(steps)), min(MAX_POINTS, len(steps)))
    means = np.stack([values[:, group].mean(axis=1) for group in groups], axis=1)
    return np.array([steps[group].mean() for group in groups]), means


def draw_metric(axes: Axes, key: str, steps: Float[np.ndarray, " t"], values: Float[np.ndarray, "n t"]) -> None:
    """Draw one metric over environment steps."""
    draw_band(axes, steps, values)
    metric = METRICS.get(key)
    if metric is not None and metric.is_share:
        axes.set_ylim(0, 1.02)
        percent_axis(axes)
    elif metric is not None and metric.unit == "distance":
        axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(steps[-1], 1.0))
    steps_axis(axes)
    write_title(axes, label_of(key))


def draw_band(axes: Axes, steps: np.ndarray, values: Float[np.ndarray, "n t"]) -> None:
    """Draw the mean over seeds as a line, and a band from the minimum to the maximum."""
    axes.plot(steps, values.mean(axis=0), color=ACCENT, linewidth=1.8, zorder=3,
              marker="o" if len(steps) == 1 else None, clip_on=False)  # fmt: skip
    if len(values) > 1:
        axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=ACCENT, alpha=0.18, linewidth=0)


def steps_axis(axes: Axes) -> None:
    """Label x with environment steps, in thousands and millions."""
    axes.set_xlabel("environment steps", fontsize=9, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_steps(value)))


def percent_axis(axes: Axes) -> None:
    """Label y with percentages."""
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))


def format_steps(steps: float | int) -> str:
    """250000 -> 250k, 1500000 -> 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:.4g}{letter}"
    return f"{steps:.4g}"
