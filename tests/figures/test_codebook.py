import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from edl.discover import off_support
from edl.figures.codebook import assignment_figure, usage_figure
from edl.figures.palette import palette
from edl.figures.style import ALARM
from edl.nets.quantiser import perplexity


@pytest.mark.parametrize(
    ("usage", "expected"),
    # H = 0.75 log(4/3) + 0.25 log 4 in the last case.
    [(np.full(10, 0.1), 10), (np.array([0.5, 0.5, 0.0, 0.0]), 2), (np.array([0.75, 0.25]), 4 / 3**0.75)],
)
def test_perplexity_is_the_effective_number_of_codes(usage, expected):
    assert float(perplexity(jnp.asarray(usage))) == pytest.approx(expected, rel=1e-5)
    assert usage_figure(usage).texts[1].get_text() == f"perplexity {expected:.1f} of {len(usage)}"


def test_usage_has_a_bar_for_each_code_and_labels_unused_codes(pixels):
    usage = np.array([0.5, 0.3, 0.2, 0.0])
    figure = usage_figure(usage)
    axes = figure.axes[0]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], usage)
    assert [text.get_text() for text in axes.texts].count("unused") == 1
    assert f"{float(perplexity(jnp.asarray(usage))):.1f} of 4" in figure.texts[1].get_text()
    picture = pixels(figure)
    assert all(picture.count(colour) > 200 for colour in palette(3))


@pytest.mark.parametrize("num_skills", [1, 25, 50, 200])
def test_usage_of_any_number_of_codes(num_skills, pixels):
    assert pixels(usage_figure(np.full(num_skills, 1 / num_skills))).count(palette(1)[0]) > 10


def test_states_have_the_colour_of_their_code(run, pixels):
    picture = pixels(assignment_figure(run.layout, run.samples, run.assignments, run.goals))
    for index, colour in enumerate(palette(10)):
        # Dots are translucent: 40 % of the colour over white.
        tint = 255 - 0.4 * (255 - np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]))
        shade = "#" + "".join(f"{round(value):02x}" for value in tint)
        assert picture.count(shade) > 50, index


def test_goals_off_the_explored_states_are_found_in_any_dimension():
    samples = np.random.default_rng(0).uniform(size=(3000, 2))
    assert off_support(np.array([[0.5, 0.5], [1.01, 0.5], [1.6, 0.5]]), samples).tolist() == [False, False, True]
    # With a large offset, a difference of squares in float32 would lose all digits.
    assert off_support(np.array([[0.5, 0.5], [1.6, 0.5]]) + 1e5, samples + 1e5).tolist() == [False, True]
    wide = np.random.default_rng(0).normal(size=(2000, 6))
    assert off_support(np.stack([wide[0], wide[0] + 50]), wide).tolist() == [False, True]


def test_a_snapped_goal_has_an_arrow_from_its_decoded_position(run, pixels):
    def draw(decoded: np.ndarray) -> Figure:
        cross = off_support(decoded, run.samples)
        return assignment_figure(run.layout, run.samples, run.assignments, run.goals, decoded, cross)

    decoded = run.goals.copy()
    plain = draw(decoded)
    decoded[3] = [1.0, -0.5]  # between two arms of the maze
    moved = draw(decoded)
    arrows = [sum(text.get_text() == "" for text in figure.axes[0].texts) for figure in (plain, moved)]
    assert arrows == [0, 1]
    assert pixels(moved).count(ALARM) > 10 > pixels(plain).count(ALARM)
    assert "1 of 10 goals decoded off" in moved.texts[1].get_text()


def test_envs_without_walls(pixels):
    samples = np.random.default_rng(0).normal(size=(300, 5))
    figure = assignment_figure(None, samples, np.arange(300) % 3, samples[:3], samples[:3])
    assert all(pixels(figure).count(colour) > 10 for colour in palette(3))
