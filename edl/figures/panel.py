"""The interactive panel of a page: what it shows as JSON, and the scripts that show it.

The scripts are the ES modules in `edl/figures/web`. They contain the physics of mazes, networks, action distributions
and pick rules, so a page needs no server. `script_of` joins them into one script when a page is written. Envs whose
physics is not in the page, such as robots, show rollouts that were recorded.
"""

import base64
import hashlib
import html
import importlib.resources
import io
import json
import re
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from edl.artifacts import PickRule, PosteriorPick, SkillPolicy, TargetAsGoal, concatenate
from edl.baselines.directions import DirectionOfTarget
from edl.baselines.pick_rules import MostLikelySkill, NearestMean
from edl.baselines.snn4hrl import NearestVisitedCell, bilinear
from edl.baselines.vic import MostLikelyEnd
from edl.baselines.visr import ModeOfPosterior
from edl.envs.layouts import Layout
from edl.envs.maze import MAX_ACTION
from edl.evaluate.picking import PRACTICE_RULE
from edl.figures.palette import palette
from edl.nets.distributions import Beta, TanhGaussian
from edl.nets.mlp import MLP

ACTIVATIONS = {jax.nn.relu: "relu", jnp.tanh: "tanh", jax.nn.tanh: "tanh"}
DISTRIBUTIONS = {Beta: "beta", TanhGaussian: "tanh_gaussian"}
INTEGRATIONS: dict[Any, str] = {concatenate: "concatenate", bilinear: "bilinear"}
MAX_BINS = 64
"""Maximum number of bins of the explored density along each side."""
MAX_RECORDED = 10
"""Maximum number of recorded rollouts per skill."""
MAX_STATES = 201
"""Maximum number of states of a recorded rollout; others are left out at equal intervals."""
MAX_PAGE = 1_000_000
"""Maximum number of bytes of a page with several seeds. Seeds that do not fit are left out, and the page says so."""
STRIP_WIDTH = 160
"""Width in pixels of one picture of a robot."""
ENTRY = "main"

PanelData = dict[str, Any]


def maze_panel(
    title: str, layout: Layout, horizon: int, seeds: Iterable[PanelData | None], num_seeds: int = 1
) -> PanelData | None:
    """The panel of a run in a maze; None if the page does not know its kind of policy.

    `maze_seed` makes the seeds, one after the other until the page is full; ``num_seeds`` is how many there are.
    """
    kept = first_seeds(seeds, MAX_PAGE)
    if not kept:
        return None
    return {
        "kind": "maze",
        "title": title,
        "numSeeds": num_seeds,
        "horizon": horizon,
        "maxAction": MAX_ACTION,
        "maze": maze_json(layout),
        "colours": palette(kept[0]["policy"]["codes"]["shape"][0]),
        "seeds": kept,
    }


def maze_seed(
    seed: int,
    layout: Layout,
    policy: SkillPolicy,
    rule: PickRule | None,
    goals: Float[np.ndarray, "k 2"] | None = None,
    samples: Float[np.ndarray, "m 2"] | None = None,
) -> PanelData | None:
    """What one training seed of a run in a maze has learned; None if the page does not know its kind of policy."""
    known = (
        policy.actor.activation in ACTIVATIONS
        and type(policy.distribution) in DISTRIBUTIONS
        and policy.integrate in INTEGRATIONS
    )
    if not known:
        return None
    return {
        "seed": seed,
        "goals": None if goals is None else np.asarray(goals, float).round(4).tolist(),
        "policy": policy_json(policy),
        "pick": pick_json(rule),
        "explored": None if samples is None else density_json(layout, samples),
    }


def recorded_panel(
    title: str, layout: Layout | None, seeds: Iterable[PanelData | None], num_seeds: int = 1
) -> PanelData | None:
    """The panel of rollouts that were recorded; None if they have only one feature. `recorded_seed` makes the seeds."""
    kept = first_seeds(seeds, MAX_PAGE)
    if not kept:
        return None
    bounds = np.array([each["bounds"] for each in kept])
    return {
        "kind": "recorded",
        "title": title,
        "numSeeds": num_seeds,
        "maze": None if layout is None else maze_json(layout),
        "bounds": [bounds[:, 0].min(axis=0).tolist(), bounds[:, 1].max(axis=0).tolist()],
        "colours": palette(kept[0]["paths"]["shape"][0]),
        "seeds": kept,
    }


def recorded_seed(
    seed: int,
    paths: Float[np.ndarray, "k n t s"],
    rule: PickRule | None,
    goals: Float[np.ndarray, "k s"] | None = None,
    frames: UInt8[np.ndarray, "k f h w 3"] | None = None,
) -> PanelData | None:
    """Rollouts of one training seed over the first two features; None if there is only one feature.

    The page can use the run's pick rule if the two features are all of them; otherwise it picks by recorded ends.
    """
    if paths.shape[-1] < 2:
        return None
    times = np.unique(np.linspace(0, paths.shape[2] - 1, MAX_STATES).astype(int))
    shown = np.asarray(paths[:, :MAX_RECORDED, times, :2], float)
    points = [shown.reshape(-1, 2)] + ([] if goals is None else [np.asarray(goals)[:, :2]])
    low, high = np.concatenate(points).min(axis=0), np.concatenate(points).max(axis=0)
    gap = np.maximum(0.05 * (high - low), 0.1)
    return {
        "seed": seed,
        "bounds": [(low - gap).tolist(), (high + gap).tolist()],
        "goals": None if goals is None else np.asarray(goals, float)[:, :2].round(4).tolist(),
        "paths": encode_scaled(shown),
        "pick": pick_json(rule) if paths.shape[-1] == 2 and rule is not None else None,
        "explored": None,
        "strip": None if frames is None else strip_json(frames),
    }


def first_seeds(seeds: Iterable[PanelData | None], room: int) -> list[PanelData]:
    """The first seeds that take at most ``room`` bytes together, and at least one. None ends the seeds."""
    kept: list[PanelData] = []
    for seed in seeds:
        room -= len(to_json(seed))
        if seed is None or (kept and room < 0):
            break
        kept.append(seed)
    return kept


def maze_json(layout: Layout) -> dict[str, Any]:
    """The walls as [x0, y0, x1, y1], and the centres of the cells and of the start cells."""
    return {
        "name": layout.name,
        "walls": layout.walls.reshape(-1, 4).tolist(),
        "cells": layout.cells.tolist(),
        "starts": layout.starts.tolist(),
    }


def policy_json(policy: SkillPolicy) -> dict[str, Any]:
    distribution: Any = policy.distribution
    return {
        "actor": network_json(policy.actor),
        "mean": encode(policy.normaliser.mean),
        "scale": encode(policy.normaliser.scale),
        "distribution": {
            "kind": DISTRIBUTIONS[type(distribution)],
            "low": np.asarray(distribution.low, float).tolist(),
            "high": np.asarray(distribution.high, float).tolist(),
        },
        "integrate": INTEGRATIONS[policy.integrate],
        "codes": encode(policy.codes),
    }


def network_json(network: MLP) -> dict[str, Any]:
    return {
        "weights": [encode(weight) for weight in network.weights],
        "biases": [encode(bias) for bias in network.biases],
        "activation": ACTIVATIONS[network.activation],
    }


def pick_json(rule: PickRule | None) -> dict[str, Any]:
    """A pick rule for `web/picking.js`. A rule that the page does not know is replaced by practice rollouts."""
    make = RULES.get(type(rule))  # type: ignore[arg-type]
    if rule is None or make is None:
        return {"kind": "practice", "rule": PRACTICE_RULE}
    return {"rule": rule.rule, **make(rule)}


def _posterior(rule: Any) -> dict[str, Any]:
    skills = rule.skills
    return {
        "kind": "posterior",
        "encoder": None if skills.encoder is None else network_json(skills.encoder),
        "mean": encode(skills.normaliser.mean),
        "scale": encode(skills.normaliser.scale),
        "codes": encode(skills.codes),
        "continuous": skills.continuous,
    }


def _visited_cells(rule: Any) -> dict[str, Any]:
    """Only the visited cells, by their column and row."""
    winners = np.asarray(rule.winners)
    visited = np.flatnonzero(winners >= 0)
    places = np.stack([visited % rule.cells, visited // rule.cells], axis=1)
    return {
        "kind": "visited_cells",
        "places": encode(places, np.int16),
        "winners": encode(winners[visited], np.int16),
        "density": float(rule.density),
        "cells": rule.cells,
    }


RULES: dict[type[PickRule], Callable[[Any], dict[str, Any]]] = {
    PosteriorPick: _posterior,
    MostLikelySkill: lambda rule: {"kind": "classifier", "network": network_json(rule.classifier)},
    NearestMean: lambda rule: {"kind": "nearest_mean", "means": encode(rule.means)},
    TargetAsGoal: lambda rule: {"kind": "target"},
    DirectionOfTarget: lambda rule: {
        "kind": "direction",
        "network": network_json(rule.phi),
        "origin": encode(rule.origin),
        "discrete": rule.discrete,
    },
    ModeOfPosterior: lambda rule: {"kind": "unit_features", "network": network_json(rule.features)},
    MostLikelyEnd: lambda rule: {
        "kind": "likely_end",
        "network": network_json(rule.classifier),
        "starts": encode(rule.starts),
    },
    NearestVisitedCell: _visited_cells,
}
"""The rules that the page can evaluate."""


def density_json(layout: Layout, samples: Float[np.ndarray, "m 2"]) -> dict[str, Any]:
    """Counts of the samples in square bins, as log(1 + count) relative to the largest."""
    low, high = layout.bounds
    side = max(0.25, float(np.max(high - low)) / MAX_BINS)
    columns, rows = (int(count) for count in np.ceil((high - low) / side))
    edges = [low[0] + side * np.arange(columns + 1), low[1] + side * np.arange(rows + 1)]
    counts, *_ = np.histogram2d(*np.asarray(samples, float)[:, :2].T, bins=edges)
    shares = np.log1p(counts) / max(np.log1p(counts.max()), 1e-12)
    return {"low": low.tolist(), "side": side, "counts": encode(np.round(255 * shares), np.uint8)}


def strip_json(frames: UInt8[np.ndarray, "k f h w 3"]) -> dict[str, Any]:
    """All pictures as one JPEG: a row per skill."""
    from PIL import Image

    rows, columns, height, width, _ = frames.shape
    sheet = Image.fromarray(frames.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, 3))
    sheet = sheet.resize((STRIP_WIDTH * columns, round(STRIP_WIDTH * height / width) * rows))
    file = io.BytesIO()
    sheet.save(file, "JPEG", quality=80)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return {"image": f"data:image/jpeg;base64,{data}", "rows": rows, "columns": columns}


def encode(array: Array | np.ndarray, kind: type = np.float32) -> dict[str, Any]:
    """An array for `web/arrays.js`."""
    values = np.ascontiguousarray(array, np.dtype(kind).newbyteorder("<"))
    data = base64.b64encode(values.tobytes()).decode("ascii")
    return {"type": np.dtype(kind).name, "shape": list(values.shape), "data": data}


def encode_scaled(array: np.ndarray) -> dict[str, Any]:
    """An array rounded to 1 / 32767 of its largest value."""
    scale = max(float(np.abs(array).max(initial=0.0)), 1e-6) / 32767
    return {**encode(np.rint(array / scale), np.int16), "scale": scale}


def panel_html(runs: Sequence[PanelData], room: int = MAX_PAGE) -> str:
    """The part of a page that shows the runs: an element for the panels, their data, and the script.

    It takes at most ``room`` bytes if one seed of each run fits.
    """
    script = script_of(ENTRY)
    room -= len(script) + 1000
    data = [{**run, "seeds": first_seeds(run["seeds"], room // len(runs))} for run in runs]
    return (
        '<div id="studio" class="card"><noscript>This panel needs JavaScript.</noscript></div>\n'
        f'<script type="application/json" id="studio-data">{to_json(data)}</script>\n'
        f'<script type="module">{script}</script>'
    )


def to_json(data: Any) -> str:
    """JSON without "<", so that nothing in it can end the element that contains it."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


SIDE_BY_SIDE = (
    "Click a place: every run picks the skill for it by its own rule, and plays it. "
    "Start, noise, speed and cursor are shared."
)


def page_of_runs(runs: Sequence[PanelData]) -> str:
    """A page that shows runs side by side, with one cursor for all of them."""
    return _page(runs, " and ".join(str(run["title"]) for run in runs), "Runs side by side", SIDE_BY_SIDE)


def page_of_run(run: PanelData) -> str:
    """A page that shows the panel of one run and nothing else, to be embedded in another page."""
    return _page([run], str(run["title"]), "", "", ' class="embedded"')


def _page(runs: Sequence[PanelData], title: str, heading: str, lede: str, kind: str = "") -> str:
    template = read_web("compare.html")
    style = read_web("page.css") + read_web("studio.css")
    return string.Template(template).substitute(
        title=html.escape(title),
        heading=heading,
        lede=lede,
        kind=kind,
        policy=content_policy([script_of(ENTRY)]),
        style=style,
        panels=panel_html(runs, MAX_PAGE - len(template) - len(style)),
    )


def content_policy(scripts: Sequence[str] = ()) -> str:
    """A Content-Security-Policy under which a page loads nothing and runs only these scripts."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = "".join(f" 'sha256-{digest}'" for digest in digests)
    script_source = f"; script-src{allowed}" if allowed else ""
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'{script_source}"


def read_web(name: str) -> str:
    return importlib.resources.files("edl.figures").joinpath("web", name).read_text("utf-8")


IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def script_of(entry: str, read: Callable[[str], str] = read_web) -> str:
    """A module and all that it imports as one script.

    Every module becomes a function that returns what it exports: ``const name = (() => { ...; return { a, b }; })();``,
    and an import becomes ``const { a } = name;``. The text of the modules is otherwise unchanged.
    """
    made: dict[str, str] = {}

    def add(name: str) -> None:
        if name in made:
            return
        text = read(f"{name}.js")
        for _, other in IMPORT.findall(text):
            add(other)
        exports = ", ".join(EXPORT.findall(text))
        body = EXPORT.sub("", IMPORT.sub(lambda found: f"const {found[1]} = modules.{found[2]};\n", text))
        made[name] = f"modules.{name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"

    add(entry)
    return "const modules = {};\n" + "".join(made.values())
