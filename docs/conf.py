"""The documentation site: Markdown as it stands here, docstrings, no network; `make docs` builds it."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

import ddol

project = "ddol"
author = "The ddol developers"
release = ddol.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "pydata_sphinx_theme"
html_title = "ddol"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_sidebars = {"**": ["globaltoc.html"]}
html_theme_options = {
    "show_prev_next": True,
    "navbar_center": [],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sphinx = False
# Summaries are fetched, which browsers do not do from a folder.
html_show_search_summary = False
project_copyright = author
exclude_patterns = ["figures", "_static"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
default_role = "literal"
suppress_warnings = ["config.cache"]

REPOSITORY = "https://github.com/ddol/ddol/blob/main/"
CONTENTS = {
    "Start here": ["one-file", "sites", "node", "research", "choosing"],
    "Use it": [
        "command-line",
        "job",
        "data",
        "estimators",
        "live",
        "study",
        "callbacks",
        "gallery",
        "model-format",
    ],
    "Safe and private": ["safe", "network", "leaks", "robustness"],
    "Learn more": [
        "algorithms",
        "your-own-parts",
        "schedules",
        "asking",
        "talking",
        "policies",
        "scaling",
        "comparison",
    ],
    "Background": [
        "theory",
        "errata",
        "notation",
        "reproduce",
        "claims",
        "benchmarks",
        "decisions",
        "background/algorithms-measured",
        "background/adaptive",
        "background/errata-proofs",
        "stability",
        "inside",
        "background/recordings",
        "background/safe-measured",
        "background/safe-proofs",
        "background/schedules-measured",
        "background/scaling-measured",
    ],
    "Reference": ["reference"],
}
PROGRAM = r"""<details><summary>The program</summary>

```{literalinclude} ../examples/\1
:language: python
```

</details>
"""


def add_contents(app: Any, name: str, source: list[str]) -> None:
    """The first page gets the table of contents, the gallery its programs; links lead to the repository."""
    if name == "index":
        source[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n```\n"
            for title, pages in CONTENTS.items()
        )
    if name == "gallery":
        program = r"examples/(\w+\.py)`\.?\n\n(!\[[^\n]*\n)"
        source[0] = re.sub(program, r"examples/\1`\n\n\2\n" + PROGRAM, source[0])
    source[0] = re.sub(r"(?<!!)(\[[^\]]*\])\(\.\./", rf"\1({REPOSITORY}", source[0])


def plain_names(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Names such as classes_ are no references, and those of other projects' docstrings lead nowhere."""
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r":ref:`([^`<]*)[^`]*`", r"\1", line)
            lines[place] = re.sub(r"(?<=\w)_(?=[\s,:.;)]|$)", r"\\_", line)


def inline_math(writer: Any, node: Any) -> None:
    """MathML, which browsers draw themselves."""
    writer.body.append(convert(node.astext()))
    raise _done()


def block_math(writer: Any, node: Any) -> None:
    """The same, on a line of its own."""
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise _done()


def _done() -> Exception:
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", add_contents)
    # Before napoleon, which reads the sections.
    app.connect("autodoc-process-docstring", plain_names, priority=400)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
