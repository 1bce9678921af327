"""Hooks of mkdocs: what the pages need besides Markdown, so that they stay readable in the repository.

* A code block with a file name (`python drone.py`) gets it as a title.
* The diagram of the packages becomes boxes: mermaid would be loaded from the network.
* `first_hour.ipynb` becomes a page.
* The comment `<!-- panel -->` becomes the interactive panel of a run; on a plain page there is a picture.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from edl.figures.panel import page_of_run

HERE = Path(__file__).parent
NOTEBOOK = HERE.parent / "first_hour.ipynb"
PANEL = HERE.parent / "images" / "bottleneck_panel.json"
PANEL_PAGE = "bottleneck_run.html"
FENCE = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
MERMAID = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)
NODE = re.compile(r'^ +(\w+)\["<b>(.*?)</b><br/>(.*?)"\]', re.MULTILINE)
ARROW = re.compile(r"^ +(.+) --> (.+)$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the page of the notebook and the page of the panel."""
    page = page_of_run(json.loads(PANEL.read_text("utf-8")))
    files.append(File.generated(config, "first_hour.md", content=notebook_page(NOTEBOOK.read_text("utf-8"))))
    files.append(File.generated(config, PANEL_PAGE, content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    frame = f'<iframe class="panel-frame" src="{PANEL_PAGE}" title="Ten skills in the bottleneck maze"></iframe>'
    shown = MERMAID.sub(lambda found: layers(found[1]), markdown)
    return FENCE.sub(r'```\1 title="\2"', shown).replace("<!-- panel -->", frame)


def notebook_page(text: str) -> str:
    """The cells of a notebook as Markdown, and a link to the notebook."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    parts.insert(1, f"*Download [{NOTEBOOK.name}]({NOTEBOOK.name}) and run it.*")
    return "\n\n".join(parts)


def layers(diagram: str) -> str:
    """A diagram of layers, one row of boxes per layer."""
    names = {name: (title, about) for name, title, about in NODE.findall(diagram)}
    arrows = ARROW.findall(diagram)
    rows = [arrows[0][0], *(below for _, below in arrows)]
    boxes = [
        "".join("<span><b>{}</b><br>{}</span>".format(*map(html.escape, names[name])) for name in row.split(" & "))
        for row in rows
    ]
    return '<div class="layers">' + "".join(f"<div>{row}</div>" for row in boxes) + "</div>"
