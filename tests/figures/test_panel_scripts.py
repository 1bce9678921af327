"""The scripts of the interactive panel in a real browser, compared with Python."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from edl.artifacts import PosteriorPick, SkillModel, SkillPolicy, TargetAsGoal
from edl.baselines.directions import DirectionOfTarget
from edl.baselines.pick_rules import MostLikelySkill, NearestMean
from edl.baselines.snn4hrl import NearestVisitedCell, bilinear
from edl.baselines.vic import MostLikelyEnd
from edl.baselines.visr import ModeOfPosterior
from edl.envs import geometry
from edl.envs.layouts import NAMES, load
from edl.envs.maze import MAX_ACTION, maze, stack
from edl.evaluate.geodesic import Geodesic
from edl.figures import panel
from edl.nets.distributions import Beta, TanhGaussian
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser

pytestmark = pytest.mark.browser
TRANSITIONS = 1200
LOW, HIGH = jnp.full(2, -MAX_ACTION), jnp.full(2, MAX_ACTION)


@pytest.fixture(scope="module")
def scripts(browser):
    """A function that evaluates JavaScript with the modules of the panel in scope."""
    page = browser.new_page(offline=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_script_tag(content=panel.script_of(panel.ENTRY) + "window.modules = modules;", type="module")
    page.wait_for_function("window.modules && window.modules.app")
    yield page.evaluate
    page.close()
    assert not errors, "\n".join(errors)


def random_network(rng: np.random.Generator, *sizes: int, scale: float = 1.5) -> MLP:
    pairs = list(itertools.pairwise(sizes))
    weights = [jnp.asarray(scale * rng.normal(size=pair) / np.sqrt(pair[0]), jnp.float32) for pair in pairs]
    return MLP(weights, [jnp.asarray(0.3 * rng.normal(size=o), jnp.float32) for _, o in pairs])


def random_policy(kind: type, integrate=None, hidden: int = 32) -> SkillPolicy:
    rng, inputs = np.random.default_rng(0), 2 + 5 if integrate is None else 2 + 5 + 10
    return SkillPolicy(
        actor=random_network(rng, inputs, hidden, hidden, 4),
        normaliser=Normaliser(jnp.array([0.5, -1.0]), jnp.array([2.0, 3.0])),
        distribution=kind(LOW, HIGH, 4),
        codes=jnp.asarray(rng.normal(size=(6, 5)), jnp.float32),
        **({} if integrate is None else {"integrate": integrate}),
    )


def golden_inputs(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points and motions: next to walls, into corners, anywhere, and aimed at posts."""
    layout = load(name)
    right, up, left, down = (~layout.passages).T
    corner_cells = np.flatnonzero((right | left) & (up | down))
    chosen = rng.integers(len(layout.cells), size=TRANSITIONS)
    sixth, third = TRANSITIONS // 6, TRANSITIONS // 3
    chosen[:sixth] = corner_cells[rng.integers(len(corner_cells), size=sixth)]
    cells = layout.cells[chosen]
    offsets = rng.uniform(-0.49, 0.49, (TRANSITIONS, 2))
    close = rng.choice([-1, 1], (third, 2)) * (0.5 - rng.uniform(2e-4, 0.02, (third, 2)))
    offsets[:third] = np.where(rng.random((third, 2)) < 0.7, close, offsets[:third])
    into = np.stack([np.where(right, 1, -1), np.where(up, 1, -1)], axis=1)[chosen[:sixth]]
    offsets[: sixth // 2] = into[: sixth // 2] * rng.uniform(0.1, 0.49, (sixth // 2, 2))  # near the corner
    points = (cells + offsets).astype(np.float32)
    motions = rng.uniform(-MAX_ACTION, MAX_ACTION, (TRANSITIONS, 2)).astype(np.float32)
    corners = cells[-third:] + 0.5 * rng.choice([-1, 1], (third, 2))
    aimed = (corners - points[-third:]) * rng.uniform(0.9, 1.6, (third, 1)) + rng.normal(0, 1e-3, (third, 2))
    motions[-third:] = np.clip(aimed, -MAX_ACTION, MAX_ACTION)
    motions[:sixth] = into * np.abs(motions[:sixth])
    motions[::10, 0] = 0.0
    motions[5::10] = np.where(rng.random((len(motions[5::10]), 1)) < 0.5, MAX_ACTION, -MAX_ACTION)
    return points, motions


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, np.ndarray]]:
    """Transitions of every built-in maze, computed by its `slide` in one program."""
    rng = np.random.default_rng(1)
    inputs = [golden_inputs(name, rng) for name in NAMES]
    points, motions = (jnp.asarray(np.stack(arrays)) for arrays in zip(*inputs, strict=True))
    keys = jax.random.split(jax.random.key(2), (len(NAMES), TRANSITIONS))

    def transitions(walls, keys, points, motions):
        pushes = jax.vmap(
            lambda key: jax.random.uniform(
                key, (2,), minval=2 * geometry.SKIN, maxval=geometry.REPULSION - geometry.SKIN
            )
        )(keys)
        return pushes, jax.vmap(geometry.slide, (0, None, 0, 0))(keys, walls, points, motions)

    walls = stack([maze(name) for name in NAMES]).walls
    pushes, ends = jax.jit(jax.vmap(transitions))(walls, keys, points, motions)
    arrays = {"points": points, "motions": motions, "pushes": pushes, "ends": ends}
    return {name: {key: np.asarray(value)[i] for key, value in arrays.items()} for i, name in enumerate(NAMES)}


@pytest.mark.parametrize("name", NAMES)
def test_physics_agree_with_python(scripts, golden, name):
    found = golden[name]
    free = found["points"] + found["motions"]
    blocked = np.abs(found["ends"] - free) > 1e-3
    assert blocked.any(axis=1).sum() > 200  # contacts with a wall, most of which slide
    assert blocked.all(axis=1).sum() > 50  # corners
    inputs = {key: panel.encode(found[key]) for key in ("points", "motions", "pushes")}
    ends = scripts(
        """({ segments, points, motions, pushes }) => {
          const { decodeRows } = modules.arrays, { makeWalls, slide } = modules.physics;
          const walls = makeWalls(segments), [p, m, r] = [points, motions, pushes].map(decodeRows);
          return p.map(([x, y], i) => { const out = [0, 0]; slide(walls, x, y, ...m[i], r[i], out); return out; });
        }""",
        {"segments": panel.maze_json(load(name))["walls"], **inputs},
    )
    np.testing.assert_allclose(ends, found["ends"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "integrate"), [(Beta, None), (TanhGaussian, None), (Beta, bilinear)])
def test_modes_agree_with_python(scripts, kind, integrate):
    policy = random_policy(kind, integrate)
    states = np.random.default_rng(3).uniform(-4, 4, (50, 2)).astype(np.float32)
    modes = scripts(
        """({ policy, states }) => {
          const made = new modules.networks.Policy(policy), rows = modules.arrays.decodeRows(states);
          return made.codes.map((code) => {
            const network = made.forCode(code);
            return rows.map((state) => { const out = [0, 0]; made.mode(network.apply(state), out); return out; });
          });
        }""",
        {"policy": panel.policy_json(policy), "states": panel.encode(states)},
    )
    expected = jax.vmap(lambda code: jax.vmap(lambda state: policy.mode(state, code))(states))(policy.codes)
    np.testing.assert_allclose(modes, expected, rtol=0, atol=3e-6)  # float32
    np.testing.assert_allclose(modes, exact_modes(policy, states), rtol=0, atol=1e-12)  # the same formula in doubles


def exact_modes(policy: SkillPolicy, states: np.ndarray) -> np.ndarray:
    """The mean actions in double precision."""
    low, high = np.asarray(LOW, float), np.asarray(HIGH, float)
    rows = []
    for code in np.asarray(policy.codes, float):
        seen = (states.astype(float) - np.asarray(policy.normaliser.mean)) / np.asarray(policy.normaliser.scale)
        codes = np.broadcast_to(code, (len(states), len(code)))
        products = (seen[:, :, None] * code).reshape(len(states), -1)
        x = np.concatenate([seen, codes, products] if policy.integrate is bilinear else [seen, codes], axis=1)
        for weight, bias in zip(policy.actor.weights[:-1], policy.actor.biases[:-1], strict=True):
            x = np.maximum(x @ np.asarray(weight, float) + np.asarray(bias, float), 0)
        first, second = np.split(
            x @ np.asarray(policy.actor.weights[-1], float) + np.asarray(policy.actor.biases[-1], float), 2, axis=1
        )
        if isinstance(policy.distribution, Beta):
            alpha, beta = np.logaddexp(first, 0) + 1.05, np.logaddexp(second, 0) + 1.05
            rows.append(low + (high - low) * alpha / (alpha + beta))
        else:
            rows.append(low + (high - low) * (np.clip(np.tanh(first), 1e-6 - 1, 1 - 1e-6) + 1) / 2)
    return np.stack(rows)


@pytest.mark.parametrize("params", [(-3.0, 0.2, 1.0, -8.0), (4.0, 30.0, 2.0, 30.0)])
def test_samples_of_beta_have_its_distribution(scripts, params):
    draws = draw(scripts, Beta, params)
    alpha, beta = np.split(np.logaddexp(np.array(params), 0) + 1.05, 2)
    for i in range(2):
        unit = (draws[:, i] + MAX_ACTION) / (2 * MAX_ACTION)
        assert scipy.stats.kstest(unit, scipy.stats.beta(alpha[i], beta[i]).cdf).pvalue > 0.01
    assert abs(scipy.stats.pearsonr(*draws.T).statistic) < 0.05


def test_samples_of_tanh_gaussian_have_its_distribution(scripts):
    draws = draw(scripts, TanhGaussian, (0.3, -1.0, -0.5, 9.0))  # log standard deviations are at most 2
    for i, (mean, deviation) in enumerate([(0.3, np.exp(-0.5)), (-1.0, np.exp(2.0))]):
        inner = np.abs(draws[:, i]) < 0.999 * MAX_ACTION
        exact = scipy.stats.norm(mean, deviation).cdf
        edges = exact(np.arctanh([-0.999, 0.999]))
        cdf = lambda x, exact=exact, edges=edges: (exact(x) - edges[0]) / (edges[1] - edges[0])  # noqa: E731
        assert scipy.stats.kstest(np.arctanh(draws[inner, i] / MAX_ACTION), cdf).pvalue > 0.01
        assert abs(inner.mean() - (edges[1] - edges[0])) < 0.03


def draw(scripts, kind: type, params: tuple[float, ...], count: int = 4000) -> np.ndarray:
    policy = panel.policy_json(random_policy(kind))
    return np.array(
        scripts(
            """({ policy, params, count }) => {
              const made = new modules.networks.Policy(policy), random = new modules.random.Random(7);
              const draw = () => { const out = [0, 0]; made.sample(random, params, out); return out; };
              return Array.from({ length: count }, draw);
            }""",
            {"policy": policy, "params": list(params), "count": count},
        )
    )


def test_random_numbers_are_uniform_and_streams_differ(scripts):
    rows = np.array(
        scripts(
            """() => [[0, 1], [0, 2], [1, 1], [0, 1]].map((seeds) => {
              const random = new modules.random.Random(...seeds);
              return Array.from({ length: 5000 }, () => random.uniform());
            })"""
        )
    )
    for row in rows:
        assert scipy.stats.kstest(row, "uniform").pvalue > 0.01
        assert abs(np.corrcoef(row[1:], row[:-1])[0, 1]) < 0.05
    assert (rows[0] == rows[3]).all()
    assert np.abs(np.corrcoef(rows[:3]) - np.eye(3)).max() < 0.06


def example_rules() -> dict:
    rng = np.random.default_rng(5)
    codes = jnp.asarray(rng.normal(size=(6, 5)), jnp.float32)
    shared = {"goals": jnp.zeros((6, 2)), "decoded": jnp.zeros((6, 2)), "usage": jnp.ones(6) / 6, "decoder": None}
    shared |= {"normaliser": Normaliser(jnp.array([0.3, -0.2]), jnp.array([2.0, 1.5]))}
    encoder, phi = random_network(rng, 2, 32, 5), random_network(rng, 2, 32, 6)
    winners = np.where(rng.random(64) < 0.3, rng.integers(0, 6, 64), -1)
    return {
        "vqvae": PosteriorPick(SkillModel(codes=codes, encoder=encoder, **shared)),
        "kmeans": PosteriorPick(SkillModel(codes=codes[:, :2], encoder=None, **shared)),
        "gaussian": PosteriorPick(
            SkillModel(codes=codes, encoder=random_network(rng, 2, 16, 10), continuous=True, **shared)
        ),
        "diayn": MostLikelySkill(phi),
        "forward_mi": NearestMean(jnp.asarray(rng.normal(size=(6, 2)), jnp.float32)),
        "discern": TargetAsGoal(),
        "metra": DirectionOfTarget(phi, jnp.ones(6), True),
        "metra_continuous": DirectionOfTarget(phi, jnp.ones(6), False),
        "visr": ModeOfPosterior(phi),
        "vic": MostLikelyEnd(random_network(rng, 4, 16, 6), jnp.asarray(rng.normal(size=(16, 2)), jnp.float32)),
        "snn4hrl": NearestVisitedCell(jnp.asarray(winners, jnp.int32), jnp.float32(1.25), 8),
    }


@pytest.mark.parametrize("name", list(example_rules()))
def test_pick_rules_agree_with_python(scripts, name):
    rule = example_rules()[name]
    targets = np.random.default_rng(6).uniform(-4, 4, (100, 2)).astype(np.float32)
    picks = scripts(
        """({ rule, targets }) => {
          const pick = modules.picking.makeRule(rule);
          const picks = modules.arrays.decodeRows(targets).map((x) => pick([...x]));
          return picks.map(({ index, code }) => index ?? [...code]);
        }""",
        {"rule": panel.pick_json(rule), "targets": panel.encode(targets)},
    )
    expected = np.asarray(jax.vmap(rule)(jnp.asarray(targets)))
    if expected.ndim == 1:
        assert len(set(expected.tolist())) > 1
        assert picks == expected.tolist()
    else:
        np.testing.assert_allclose(picks, expected, atol=1e-5)


def test_an_unknown_rule_is_replaced_by_practice():
    assert panel.pick_json(None)["kind"] == "practice"


@pytest.mark.parametrize("name", NAMES)
def test_walking_distances_agree_with_python(scripts, name):
    layout, rng = load(name), np.random.default_rng(8)
    points = layout.cells[rng.integers(len(layout.cells), size=40)] + rng.uniform(-0.5, 0.5, (40, 2))
    outside = layout.bounds[1] + 1.0
    data = panel.maze_json(layout)
    lengths, away = scripts(
        """({ walls, cells, points, outside }) => {
          const walking = new modules.walking.Walking(walls, cells);
          const from = points.slice(0, 10).map((point) => walking.from(point));
          return [from.map((measure) => points.map((point) => measure(point))), from[0](outside) === Infinity];
        }""",
        {"walls": data["walls"], "cells": data["cells"], "points": points.tolist(), "outside": outside.tolist()},
    )
    assert away
    np.testing.assert_allclose(lengths, Geodesic.from_layout(layout).distance(points[:10], points), atol=1e-9)


def test_200_rollouts_of_50_steps_take_less_than_0_3_seconds(scripts):
    layout = load("bottleneck")
    seed = panel.maze_seed(0, layout, random_policy(Beta, hidden=128), None)
    data = panel.maze_panel("speed", layout, 50, [seed])
    seconds, ends = scripts(
        """(data) => {
          const source = modules.sources.makeSource(modules.sources.ofSeed(data, 0));
          const state = { noise: true, noiseSeed: 0, start: null, rollouts: 200, goal: null };
          let best = Infinity, groups;
          for (let i = 0; i < 7; i++) {
            const start = performance.now();
            groups = source.groups(state, "0", null);
            best = Math.min(best, (performance.now() - start) / 1000);
          }
          return [best, groups[0].paths.map((path) => [path.length, source.contains(modules.rollouts.endOf(path))])];
        }""",
        data,
    )
    assert ends == [[102, True]] * 200
    assert seconds < 0.3


def test_the_state_survives_the_address(scripts):
    texts = scripts(
        """(texts) => texts.map((text) => modules.state.toFragment(
          modules.state.fromFragment(text, [{ numSkills: 10, seeds: [0, 7] }, { numSkills: 3, seeds: [4, 5] }])))""",
        [
            "show=goal&show1=goal&goal=1.500,-2.250&start=0.100,0.200&speed=2&seed=7&seed1=5&rollouts=50&overlay=regions"
            "&noise=off&noise_seed=3",
            "show=blend&blend=3,4,0.25&show1=2",
            # What does not fit is ignored.
            "show=goal&show1=3&seed=1&seed1=x&noise_seed=-1&speed=99&overlay=<b>&start=1,nan&blend=1,2,7&rollouts=1e9",
        ],
    )
    assert texts[0].split("&") == [
        "show=goal", "seed=7", "show1=goal", "seed1=5", "goal=1.500,-2.250", "start=0.100,0.200", "speed=2",
        "rollouts=50", "overlay=regions", "noise=off", "noise_seed=3",
    ]  # fmt: skip
    assert texts[1] == "show=blend&blend=3,4,0.25&show1=2"
    assert texts[2] == ""


def test_modules_are_joined_in_the_order_of_their_imports():
    files = {
        "a.js": 'import { two } from "./b.js";\n\nconst MARGIN = 1;\nexport const three = two + MARGIN;\n',
        "b.js": "const MARGIN = 1;\nexport function two() {}\nexport class Pair {}\n",
    }
    script = panel.script_of("a", files.__getitem__)
    assert script.index("modules.b =") < script.index("modules.a =")
    assert "const { two } = modules.b;" in script
    assert "return { two, Pair };" in script
    assert "import" not in script
    assert "export" not in script
