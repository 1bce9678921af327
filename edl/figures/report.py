"""The report of a run: a single HTML file that loads nothing from the network.

Its Content-Security-Policy forbids that, and allows no script except that of the interactive panel. Every string from
outside is escaped.
"""

import base64
import html
import importlib.resources
import io
import json
import shlex
import string
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from matplotlib.figure import Figure
from PIL import Image, features

from edl.evaluate.failures import failures_note
from edl.evaluate.metrics import DEFINITIONS, definitions_note, definitions_of, within_text
from edl.figures import numbers
from edl.figures.curves import format_steps
from edl.figures.palette import palette
from edl.figures.panel import ENTRY, MAX_PAGE, PanelData, content_policy, panel_html, read_web, script_of
from edl.figures.style import to_png

Picture: TypeAlias = tuple[str, str, Figure | bytes]
"""Title, caption, and the figure or its PNG."""

TOTAL = "total"
"""The entry of ``seconds`` that is not a stage."""
WEBP_QUALITY = 88
"""Quality of pictures for which a lossless form takes more bytes."""
DESCRIPTIONS = {
    "edl": "EDL learned these skills without a reward: it explored the env, divided the explored states into one "
    "region per skill, and trained a policy to reach each region.",
}


def report_html(
    metrics: Mapping[str, Any],
    config: Mapping[str, Any],
    provenance: Mapping[str, Any],
    pictures: Sequence[Picture] = (),
    folder: str = "RUN",
    panel: PanelData | None = None,
) -> str:
    """The report of a run. ``metrics`` is the content of metrics.json; ``folder`` is the path of the run.

    The first picture is placed at the top, next to the tiles unless it is wide.
    """
    template = importlib.resources.files("edl.figures").joinpath("report.html").read_text("utf-8")
    shown = [(title, caption, _png(image)) for title, caption, image in pictures]
    beside = bool(shown) and not _is_wide(shown[0][2])
    parts = {
        "title": html.escape(_title(metrics)),
        "policy": content_policy([] if panel is None else [script_of(ENTRY)]),
        "style": read_web("page.css") + ("" if panel is None else read_web("studio.css")),
        "lede": _lede(metrics),
        "chips": _chips(metrics, provenance),
        "arrangement": "beside" if beside else "",
        "hero": _picture(*shown[0]) if shown else "",
        "tiles": numbers.tiles(metrics),
        "pictures": _gallery(shown[1:]),
        "table": numbers.table(metrics),
        "notes": _notes(metrics),
        "times": _times(metrics.get("seconds") or {}),
        "how": _how(metrics, folder),
        "config": html.escape(json.dumps(config, indent=2, default=str)),
        "provenance": html.escape(json.dumps(provenance, indent=2, default=str)),
        "footer": html.escape(_footer(provenance)),
    }
    room = MAX_PAGE - len(template) - sum(len(part.encode()) for part in parts.values())
    parts["panel"] = "" if panel is None else _panel(panel, room)
    return string.Template(template).substitute(parts)


def _panel(panel: PanelData, room: int) -> str:
    shown = panel_html([panel], room)
    return f'<section aria-label="Interactive panel">\n<h2>Play with the skills</h2>\n{shown}\n</section>'


def _title(metrics: Mapping[str, Any]) -> str:
    count, env, method = (metrics.get(name, "?") for name in ("num_skills", "env", "method"))
    return f"{count} skills for {env}, discovered by {str(method).upper() if method == 'edl' else method}"


def _lede(metrics: Mapping[str, Any]) -> str:
    text = DESCRIPTIONS.get(str(metrics.get("method")), "") if _has_skills(metrics) else _unfinished(metrics)
    reached, random = numbers.mean_of(metrics, "goal_success"), numbers.random_of(metrics, "goal_success")
    if reached is not None:
        beside = "" if random is None else f" (random actions: {numbers.format_value('goal_success', random)})"
        share = numbers.format_value("goal_success", reached)
        unit, radius = numbers.distance_facts(metrics)
        text += (
            f" <strong>{share} of the rollouts end within {within_text(radius, unit)} of their goal</strong>{beside}."
        )
    return text + _versus_random(metrics.get("proof"))


def _has_skills(metrics: Mapping[str, Any]) -> bool:
    """Whether a policy was learned. Its metrics are missing if only the first stages have run."""
    return any("best_skill_distance" in seed for seed in metrics.get("per_seed") or [{"best_skill_distance": None}])


def _unfinished(metrics: Mapping[str, Any]) -> str:
    """What a run without a policy has."""
    found = "explored the env and divided the explored states into one region per skill"
    done = found if metrics.get("codebook") else "explored the env"
    return f"EDL has {done}. It has not learned a policy yet."


def _versus_random(found: Mapping[str, Any] | None) -> str:
    """The comparison of the skills with random actions. Its numbers are those of the tiles, or those of a region."""
    if not found:
        return ""
    head, _, rest = str(found["verdict"]).partition(":")
    whole = " All numbers below are about the whole env." if found.get("over") else ""
    return f" The skills are <strong>{html.escape(head)}</strong>:{html.escape(rest)}.{whole}"


def _chips(metrics: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    steps = [value for value in (metrics.get("steps") or {}).values() if isinstance(value, int | float)]
    total = (metrics.get("seconds") or {}).get(TOTAL)
    facts = {
        "env": metrics.get("env"),
        "method": metrics.get("method"),
        "explorer": metrics.get("explore"),
        "discoverer": metrics.get("discover"),
        "seeds": metrics.get("num_seeds"),
        "steps": format_steps(sum(steps)) if sum(steps) else None,
        "time": format_seconds(total) if isinstance(total, int | float) else None,
        "device": provenance.get("device"),
    }
    given = ((name, str(value)) for name, value in facts.items() if value is not None)
    return "".join(f"<li><b>{name}</b>{html.escape(value)}</li>" for name, value in given)


def _notes(metrics: Mapping[str, Any]) -> str:
    """Below the table: the skills that fail, the rule that picks skills, and the definitions of the metrics."""
    if not metrics.get("per_seed"):
        return ""
    failed, notes = failures_note(metrics), []
    if failed is not None:
        notes.append(failed)
    if metrics.get("picked_by"):
        notes.append(f"zero_shot_distance: the run picks a skill for a point x by {metrics['picked_by']}.")
    number, other = definitions_of(metrics), definitions_note(metrics)
    notes.append(f"Definitions of the metrics: number {number} ({other or DEFINITIONS[number]}).")
    if other is not None:
        notes.append("This version of edl has other definitions. Compute the metrics again with edl evaluate.")
    return "".join(f"<p>{html.escape(note)}</p>" for note in notes)


def _gallery(pictures: Sequence[tuple[str, str, bytes]]) -> str:
    """Two pictures per row; a wide picture has its own row, and a single picture has its caption beside it."""
    if not pictures:
        return ""
    wide = [_is_wide(png) for *_, png in pictures]
    cards, column = [], 0
    for i, picture in enumerate(pictures):
        alone = column == 0 and not wide[i] and (i + 1 == len(pictures) or wide[i + 1])
        column = 0 if wide[i] or alone else 1 - column
        cards.append(_picture(*picture, style="wide" if wide[i] else "alone" if alone else ""))
    joined = "\n".join(cards)
    return f'<section>\n<h2>Figures</h2>\n<div class="pictures">{joined}</div>\n</section>'


def _picture(title: str, caption: str, png: bytes, style: str = "") -> str:
    width, height = png_size(png)
    kind, small = _small_picture(png)
    data = base64.b64encode(small).decode("ascii")
    return (
        f'<figure class="card {style}"><div><img alt="{html.escape(title)}" width="{width}" height="{height}" '
        f'src="data:image/{kind};base64,{data}"></div><figcaption><b>{html.escape(title)}.</b> {html.escape(caption)}'
        "</figcaption></figure>"
    )


def _small_picture(png: bytes) -> tuple[str, bytes]:
    """The picture in the form that takes the fewest bytes: 256 colours, or WebP. The PNG files of a run are exact."""
    with Image.open(io.BytesIO(png)) as opened:
        image = opened.convert("RGB")
    # Dithering would add noise, which does not compress.
    few = image.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    forms: list[tuple[str, Image.Image, dict[str, Any]]] = [("png", few, {"optimize": True})]
    if features.check("webp"):
        forms += [
            ("webp", few.convert("RGB"), {"lossless": True, "method": 4}),
            ("webp", image, {"quality": WEBP_QUALITY}),
        ]
    made = [("png", png)]
    for kind, shown, options in forms:
        file = io.BytesIO()
        shown.save(file, kind.upper(), **options)
        made.append((kind, file.getvalue()))
    return min(made, key=lambda found: len(found[1]))


def _png(image: Figure | bytes) -> bytes:
    return to_png(image) if isinstance(image, Figure) else image


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the file's header."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError(f"a picture must be a matplotlib Figure or PNG bytes (got bytes that start with {png[:8]!r}).")
    return struct.unpack(">II", png[16:24])


def _is_wide(png: bytes) -> bool:
    width, height = png_size(png)
    return width > 2.2 * height


def _times(seconds: Mapping[str, Any]) -> str:
    """One bar divided into the stages of ``seconds``, in its order, and a legend."""
    known = {name: numbers.finite_number(value) for name, value in seconds.items() if name != TOTAL}
    spent = {name: value for name, value in known.items() if value is not None}
    if not any(value > 0 for value in spent.values()):
        return ""
    colours = dict(zip(spent, palette(len(spent)), strict=True))
    bar = "".join(
        f'<i style="flex:{value:.3f};background:{colours[name]}"></i>' for name, value in spent.items() if value > 0
    )
    legend = "".join(
        f'<li><i style="background:{colours[name]}"></i>{html.escape(str(name))} {format_seconds(value)}</li>'
        for name, value in spent.items()
    )
    return (
        f'<section>\n<h2>Time per stage</h2>\n<div class="card"><div class="times">{bar}</div>'
        f'<ul class="legend">{legend}</ul></div>\n</section>'
    )


def _how(metrics: Mapping[str, Any], folder: str) -> str:
    path, config = shlex.quote(folder), shlex.quote(folder.rstrip("/") + "/config.json")
    method = str(metrics.get("method", "edl"))
    start = "edl run" if method == "edl" else f"edl baseline {shlex.quote(method)}"
    blocks = {
        "From Python": f"import edl\n\nrun = edl.load({folder!r})\nrun.metrics['aggregate']['goal_success']\n"
        "run.env, run.states, run.skills, run.policy",
        "From the command line": f"# evaluate it and draw it again\nedl evaluate {path}\nedl figure {path}\n"
        f"# resume it after an interruption\n{start} --out {path} --resume\n"
        f"# repeat it with the same settings\n{start} --config {config} --out COPY",
    }
    return "\n".join(
        f'<div class="card"><h3>{name}</h3><pre>{html.escape(text)}</pre></div>' for name, text in blocks.items()
    )


def _footer(provenance: Mapping[str, Any]) -> str:
    facts = [f"edl {provenance['edl']}" if "edl" in provenance else "edl"]
    facts += [str(provenance[name]) for name in ("commit", "date", "time") if provenance.get(name)]
    return "Made by " + " · ".join(facts)


def format_seconds(seconds: float | int) -> str:
    """0.42 s, 58 s, 3 min 12 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
