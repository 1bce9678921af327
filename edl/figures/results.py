"""The index page of a reproduction: every claim with its verdict, then every figure with the measured values.

The pictures are files next to the page; it has no scripts and loads nothing else.
"""

import html
import importlib.resources
import string
from collections.abc import Mapping, Sequence
from typing import Any

TITLE = "Explore, Discover and Learn, reproduced"


def results_html(records: Sequence[Mapping[str, Any]]) -> str:
    """The page; ``records`` are the JSON files of the figures."""
    template = importlib.resources.files("edl.figures").joinpath("results.html").read_text("utf-8")
    every = [(record, verdict) for record in records for verdict in record["verdicts"]]
    held = sum(verdict["holds"] for _, verdict in every)
    seeds = sorted({record["num_seeds"] for record in records})
    lede = (
        f"{held} of {len(every)} claims hold, over {' or '.join(map(str, seeds))} seeds. <code>edl reproduce</code> "
        "creates every figure from scratch. Pictures show the first seed; numbers are means over all seeds with 95 % "
        "bootstrap intervals."
    )
    return string.Template(template).substitute(
        title=TITLE,
        lede=lede,
        verdicts="\n".join(_row(record, verdict) for record, verdict in every),
        figures="\n".join(_section(record) for record in records),
    )


def holds(verdict: Mapping[str, Any]) -> str:
    return '<span class="yes">✓ holds</span>' if verdict["holds"] else '<span class="no">✗ does not</span>'


def _row(record: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    name = html.escape(record["figure"])
    return (
        f'<tr><td><a href="#{name}">{name}</a></td><td>{html.escape(verdict["claim"])}</td>'
        f"<td>{holds(verdict)}</td><td>{verdict['seeds']}</td></tr>"
    )


def _section(record: Mapping[str, Any]) -> str:
    name = html.escape(record["figure"])
    pictures = "\n".join(_picture(file, caption) for file, caption in record["pictures"].items())
    verdicts = "\n".join(
        f"<tr><td>{html.escape(v['claim'])}<br><span class=measured>{html.escape(v['measured'])}</span></td>"
        f"<td>{holds(v)}</td></tr>"
        for v in record["verdicts"]
    )
    return (
        f'<section id="{name}">\n<h2>{html.escape(record["title"])}</h2>\n{pictures}\n'
        f'<div class="card scroll"><table><tbody>{verdicts}</tbody></table>'
        f'<p class="measured">preset {html.escape(record["preset"])}, {record["num_seeds"]} seeds; '
        f'<a href="{name}.json">all numbers</a></p></div>\n</section>'
    )


def _picture(file: str, caption: str) -> str:
    name, words = html.escape(file), html.escape(caption)
    return (
        f'<figure class="card"><a href="{name}.svg"><img loading="lazy" alt="{words}" src="{name}.png"></a>'
        f"<figcaption>{words}</figcaption></figure>"
    )
