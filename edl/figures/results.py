"""The results of a reproduction as a page and as a table: every claim with its verdict, for all presets side by side.

The page then shows every figure with its test and the measured values. Its pictures are files next to the page; it has
no scripts and loads nothing else.
"""

import html
import importlib.resources
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Record = Mapping[str, Any]
"""The JSON file of a figure."""
Verdict = Mapping[str, Any]

TITLE = "Explore, Discover and Learn, reproduced"
MARKS = {"holds": "✓ holds", "undecided": "? undecided", "refuted": "✗ refuted"}
SOURCES = ("paper", "ours", "theory")
"""Whose claim it is."""
NOT_TESTED = "not run"
FALSE_POSITIVES = {2: 0.17, 3: 0.10, 4: 0.07, 5: 0.06, 7: 0.05, 10: 0.044, 20: 0.036, 50: 0.03, 1000: 0.025}
"""Share of wrong claims that hold, by the number of seeds of each side, simulated with normal scores of equal means.

A bootstrap interval of few seeds is too narrow. With very many the share is that of a 95 % interval, 0.025.
"""
RULE = (
    "A claim holds if the 95 % bootstrap interval of every part of its test lies on the side that the claim names. It "
    "is refuted if the interval of one part lies on the other side, and undecided otherwise. If a method is claimed to "
    "have more or less than another, the intervals of both effects have to lie on that side. "
    "Effects are the difference of the means with its interval, and Cliff's delta, P(x > y) - P(x < y) over pairs of "
    "seeds, from -1 to 1."
)


def results_html(records: Sequence[Record], subfolders: Mapping[str, str]) -> str:
    """The page; ``subfolders`` says where the files of each preset are, relative to the page."""
    template = importlib.resources.files("edl.figures").joinpath("results.html").read_text("utf-8")
    presets = presets_of(records)
    names = list(dict.fromkeys(record["figure"] for record in records))
    folders = {preset: f"{folder}/" if (folder := subfolders.get(preset, "")) else "" for preset in presets}
    sections = (_section([record for record in records if record["figure"] == name], folders) for name in names)
    return string.Template(template).substitute(
        title=TITLE,
        lede=html.escape(overview(records)),
        rule=html.escape(RULE),
        presets="".join(f'<th scope="col">{html.escape(preset)}</th>' for preset in presets),
        verdicts="\n".join(_row(*claim, presets) for claim in claims_of(records)),
        figures="\n".join(sections),
    )


def results_markdown(records: Sequence[Record]) -> str:
    """The table of claims in Markdown, with the test and the measured values of each."""
    presets = presets_of(records)
    lines = [f"# {TITLE}", "", overview(records), "", RULE, ""]
    lines += [f"| figure | whose | claims | {' | '.join(presets)} |", f"|---|---|---|{'---|' * len(presets)}"]
    for name in dict.fromkeys(record["figure"] for record in records):
        for source in SOURCES:
            claims = [each for figure, _, each in claims_of(records) if figure == name and source_of(each) == source]
            counts = " | ".join(count_outcomes(claims, preset) for preset in presets)
            lines += [f"| `{name}` | {source} | {len(claims)} | {counts} |"] if claims else []
    lines += ["", f"| figure | whose | claim and test | {' | '.join(presets)} |"]
    lines += [f"|---|---|---|{'---|' * len(presets)}"]
    for name, claim, verdicts in claims_of(records):
        cells = [_markdown_cell(verdicts.get(preset)) for preset in presets]
        test = next(iter(verdicts.values()))["test"]
        words = f"**{_plain(claim)}**<br>{_plain(test)}"
        lines.append(f"| `{name}` | {source_of(verdicts)} | {words} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def overview(records: Sequence[Record]) -> str:
    """How many claims of the paper and of ours were tested, and how many hold, by preset."""
    claims = {name: [each for _, _, each in claims_of(records) if source_of(each) == name] for name in SOURCES}
    text = f"{len(claims['paper'])} claims of the paper and {len(claims['ours'])} of ours were tested."
    for preset in presets_of(records):
        seeds = sorted({record["num_seeds"] for record in records if record["preset"] == preset})
        text += f" Preset {preset}, {' or '.join(map(str, seeds))} seeds: "
        text += f"of the paper's claims {count_outcomes(claims['paper'], preset)}"
        text += f"; of ours {count_outcomes(claims['ours'], preset)}." if claims["ours"] else "."
    tested = len(claims["paper"]) + len(claims["ours"])
    by_chance = false_positives(min(record["num_seeds"] for record in records)) * tested if records else 0.0
    return (
        f"{text} There is no correction for the number of claims: if all {tested} were wrong, up to about "
        f"{by_chance:.1f} would hold by chance, because intervals of few seeds are too narrow. "
        f"{len(claims['theory'])} statements of the theory were checked exactly, without seeds; they are not "
        "counted. Runs that only we propose have our settings in both presets. Pictures show the first seed."
    )


def false_positives(num_seeds: int) -> float:
    """Share of wrong claims that hold by chance. With one seed, every second one does."""
    return float(np.interp(num_seeds, [1, *FALSE_POSITIVES], [0.5, *FALSE_POSITIVES.values()]))


def count_outcomes(claims: Sequence[Mapping[str, Verdict]], preset: str) -> str:
    """The outcomes of a preset in words, for example "5 hold, 1 undecided, 0 refuted"."""
    outcomes = [verdicts[preset]["outcome"] for verdicts in claims if preset in verdicts]
    if not outcomes:
        return NOT_TESTED
    holds, undecided, refuted = (outcomes.count(outcome) for outcome in MARKS)
    return f"{holds} hold, {undecided} undecided, {refuted} refuted"


def presets_of(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record["preset"] for record in records))


def claims_of(records: Sequence[Record]) -> list[tuple[str, str, dict[str, Verdict]]]:
    """Every claim once: its figure, its text, and its verdict by preset."""
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for name in dict.fromkeys(record["figure"] for record in records):
        for record in records:
            for verdict in record["verdicts"] if record["figure"] == name else ():
                found.setdefault((name, verdict["claim"]), {})[record["preset"]] = verdict
    return [(name, claim, verdicts) for (name, claim), verdicts in found.items()]


def source_of(verdicts: Mapping[str, Verdict]) -> str:
    """Whose claim it is: ``paper``, ``ours`` or ``theory``."""
    return next(iter(verdicts.values()))["source"]


def _row(name: str, claim: str, verdicts: Mapping[str, Verdict], presets: Sequence[str]) -> str:
    first, name = next(iter(verdicts.values())), html.escape(name)
    source = html.escape(source_of(verdicts))
    whose = "" if source == "paper" else f'<span class="ours">{source}</span> '
    cells = "".join(f"<td>{_mark(verdicts.get(preset))}</td>" for preset in presets)
    return (
        f'<tr><td><a href="#{name}">{name}</a></td><td>{whose}{html.escape(claim)}'
        f'<br><span class="measured">{html.escape(first["test"])}</span></td>{cells}</tr>'
    )


def _mark(verdict: Verdict | None) -> str:
    """The outcome, and Cliff's delta of each part."""
    if verdict is None:
        return NOT_TESTED
    deltas = ", ".join(f"{effect['delta']:+.2f}" for effect in verdict["effects"])
    effects = f'<br><span class="measured">δ {deltas}</span>' if deltas else ""
    return f'<span class="{verdict["outcome"]}">{MARKS[verdict["outcome"]]}</span>{effects}'


def _section(records: Sequence[Record], folders: Mapping[str, str]) -> str:
    """One figure: the pictures and the measured values of each preset."""
    name = html.escape(records[0]["figure"])
    parts = "\n".join(_preset_part(record, folders[record["preset"]]) for record in records)
    return f'<section id="{name}">\n<h2>{html.escape(records[0]["title"])}</h2>\n{parts}\n</section>'


def _preset_part(record: Record, folder: str) -> str:
    pictures = "\n".join(_picture(f"{folder}{file}", caption) for file, caption in record["pictures"].items())
    verdicts = "\n".join(
        f'<tr><td>{html.escape(v["claim"])}<br><span class="measured">{"<br>".join(map(html.escape, v["measured"]))}'
        f"</span></td><td>{_mark(v)}</td></tr>"
        for v in record["verdicts"]
    )
    return (
        f"<h3>preset {html.escape(record['preset'])}, {record['num_seeds']} seeds</h3>\n{pictures}\n"
        f'<div class="card scroll"><table><tbody>{verdicts}</tbody></table>'
        f'<p class="measured"><a href="{folder}{html.escape(record["figure"])}.json">all numbers</a></p></div>'
    )


def _picture(file: str, caption: str) -> str:
    name, words = html.escape(file), html.escape(caption)
    return (
        f'<figure class="card"><a href="{name}.png"><img loading="lazy" alt="{words}" src="{name}.png"></a>'
        f"<figcaption>{words}</figcaption></figure>"
    )


def _markdown_cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return NOT_TESTED
    return f"**{MARKS[verdict['outcome']]}**<br>{'<br>'.join(map(_plain, verdict['measured']))}"


def _plain(text: str) -> str:
    """Text for a cell of a Markdown table: a bar would end the cell, and an angle bracket could start a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")
