"""The animation of the skills."""

import io

import numpy as np
from PIL import Image

from edl.figures.animation import LAST_SECONDS, skills_frames, skills_gif


def test_trails_grow_until_they_are_the_figure_of_the_skills(make_run):
    run = make_run("square", num_skills=3)
    frames = skills_frames(run.layout, run.paths, run.goals)
    assert len(frames) == run.paths.shape[2]
    coloured = [int(np.sum(np.ptp(frame.astype(int), axis=-1) > 60)) for frame in frames]
    assert coloured == sorted(coloured)
    assert coloured[-1] > 1.5 * coloured[0]


def test_the_gif_repeats_holds_the_last_picture_and_is_small(make_run):
    run = make_run("bottleneck", num_skills=10, rollouts=20)
    data = skills_gif(run.layout, run.paths, run.goals, "10 skills")
    assert len(data) < 1_500_000
    with Image.open(io.BytesIO(data)) as animation:
        assert animation.info["loop"] == 0
        assert animation.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        animation.seek(animation.n_frames - 1)
        assert animation.info["duration"] == 1000 * LAST_SECONDS


def test_an_env_without_walls_keeps_its_axes(make_run):
    run = make_run(num_skills=2)
    frames = skills_frames(None, run.paths[..., :10, :])
    assert {frame.shape for frame in frames} == {frames[0].shape}
