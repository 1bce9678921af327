"""The skills as a moving picture: the rollouts of all skills grow from the start to their ends."""

import io

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from edl.envs.layouts import Layout
from edl.figures.maze import draw_starts, env_figure, plane
from edl.figures.skills import draw_goals, draw_trajectories, last_points, nearest_to_median

FRAMES = 51
"""Maximum number of different pictures."""
FRAME_SECONDS, LAST_SECONDS = 0.06, 2.5
GIF_DPI = 110
COLOURS = 96


def skills_gif(
    layout: Layout | None,
    paths: Float[np.ndarray, "k n t s"],
    goals: Float[np.ndarray, "k s"] | None = None,
    title: str = "Skills",
) -> bytes:
    """The figure of the skills as a GIF that repeats; see `edl.figures.skills.skills_figure`."""
    frames = skills_frames(layout, paths, goals, title)
    # The last picture has all colours. One palette for all pictures keeps what does not move equal, byte for byte.
    shared = Image.fromarray(frames[-1]).quantize(COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few = [_with_palette(frame, shared) for frame in frames]
    seconds = [FRAME_SECONDS] * (len(few) - 1) + [LAST_SECONDS]
    file = io.BytesIO()
    few[0].save(
        file, "GIF", save_all=True, append_images=few[1:], duration=[int(1000 * each) for each in seconds], loop=0
    )
    return file.getvalue()


def skills_frames(
    layout: Layout | None,
    paths: Float[np.ndarray, "k n t s"],
    goals: Float[np.ndarray, "k s"] | None = None,
    title: str = "Skills",
) -> list[UInt8[np.ndarray, "h w 3"]]:
    """The pictures of the animation, from the first step to the last."""
    paths = plane(paths)
    figure, axes = env_figure(layout, title, f"{paths.shape[0]} skills, {paths.shape[1]} rollouts each")
    figure.set_dpi(GIF_DPI)
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    if layout is None:
        # The limits of the axes are those of the last picture.
        points = paths[np.isfinite(paths).all(axis=-1)]
        axes.update_datalim(points)
        axes.autoscale_view()
        draw_starts(axes, paths[:, :, 0].mean(axis=(0, 1))[None])
    marks = nearest_to_median(last_points(paths)) if goals is None else plane(goals)
    draw_goals(axes, marks, marker="o" if goals is None else "*")
    frames = []
    for time in np.unique(np.linspace(0, paths.shape[2] - 1, FRAMES).astype(int)):
        before = set(axes.collections)
        draw_trajectories(axes, paths[:, :, : time + 1])
        canvas.draw()
        frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
        for drawn in set(axes.collections) - before:
            drawn.remove()
    return frames


def _with_palette(frame: UInt8[np.ndarray, "h w 3"], shared: Image.Image) -> Image.Image:
    """The picture in the colours of another one. White stays white, which a palette of averages does not contain."""
    colours = np.array(shared.getpalette()).reshape(-1, 3)
    white = int(np.argmax(colours.sum(axis=1)))
    colours[white] = 255
    indices = np.array(Image.fromarray(frame).quantize(palette=shared, dither=Image.Dither.NONE))
    indices[(frame == 255).all(axis=-1)] = white
    picture = Image.fromarray(indices, "P")
    picture.putpalette(colours.ravel().tolist())
    return picture
