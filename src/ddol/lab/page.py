"""One self-contained HTML page: no network, no scripts, light and dark, wide and narrow."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version

from ddol.measure.chart import COLOURS, DARK_COLOURS, STYLE, Chart, draw
from ddol.storage import write_text
from ddol.version import __version__

_CSS = """
:root{color-scheme:light dark;COLOURS --raised:#f6f8fa;--good:#1a7f37;--bad:#b3282d;--fair:#8a5a00}
@media (prefers-color-scheme:dark){:root{DARK --raised:#1c2229;--good:#57c878;--bad:#ff918b;
--fair:#e3b341}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:66rem;margin:0 auto;padding:2.2rem 1.1rem 4rem}
h1{font-size:clamp(1.5rem,4.5vw,2.1rem);line-height:1.15;letter-spacing:-.015em;margin:0 0 .4rem;
text-wrap:balance}
h2{font-size:1.25rem;line-height:1.25;letter-spacing:-.01em;margin:2.8rem 0 .8rem}
h3{font-size:1rem;margin:0 0 .15rem}
p{margin:.4rem 0 .8rem;max-width:44rem}
.lead{color:var(--soft);font-size:1.05rem}
.soft{color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;margin:1.5rem 0}
.fact{background:var(--raised);border-radius:.6rem;padding:.75rem .9rem}
.fact b{display:block;font-size:1.4rem;line-height:1.2;font-weight:650;letter-spacing:-.01em;
font-variant-numeric:tabular-nums}
.fact span{color:var(--soft);font-size:.85rem}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr));
gap:2rem 2.2rem}
figure{margin:0;min-width:0}
figure svg{display:block;width:100%;height:auto;margin:.3rem 0}
figcaption{color:var(--soft);font-size:.9rem;line-height:1.45}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:0 2.5rem}
.net,.cells{max-width:24rem}
.paper{margin:0 0 2.6rem} .paper>h3{font-size:1.08rem;margin:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.93rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .8rem .5rem 0;
border-bottom:1px solid var(--grid)}
thead th{color:var(--soft);font-weight:600;font-size:.85rem} tbody th{font-weight:400}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td:last-child,th:last-child{padding-right:0} .list{min-width:11rem}
.good,.fair,.bad{font-weight:650;white-space:nowrap}
.good{color:var(--good)} .fair{color:var(--fair)} .bad{color:var(--bad)}
details{margin:2.8rem 0 0} summary{cursor:pointer} summary h2{display:inline;margin:0}
.n.good{font-weight:650}
blockquote{margin:0;font-style:italic}
code,pre{font:.88rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--raised);border-radius:.6rem;padding:.8rem 1rem;margin:.5rem 0;
white-space:pre-wrap;overflow-wrap:anywhere}
.net path{fill:none;stroke:var(--soft);stroke-width:.008;opacity:.55}
.net circle{fill:var(--s0);stroke:var(--paper);stroke-width:.02}
.net text{font:600 .1px system-ui,sans-serif;fill:#fff;text-anchor:middle}
.cells{background:var(--raised)}
.cells rect{fill:var(--soft)}
@media (max-width:40rem){table.wide,table.wide tbody,table.wide tr,table.wide :is(td,th){display:block}
table.wide thead{display:none} table.wide tr{border-bottom:1px solid var(--grid);padding:.7rem 0}
table.wide :is(td,th){border:0;padding:.12rem 0;text-align:left}
th,td{padding-right:.5rem} table{font-size:.88rem}}
@media print{main{padding:0}}
""".replace("COLOURS", COLOURS).replace("DARK", DARK_COLOURS)


@dataclass(frozen=True)
class Cell:
    """Text of a table cell, escaped; ``style`` is n (a number), good, fair, bad, list (wide), bar or empty.

    Screen readers leave out a bar.
    """

    text: str
    style: str = ""
    quote: bool = False


def page(title: str, body: Sequence[str]) -> str:
    """A whole HTML document."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f'<meta name="generator" content="ddol {__version__}"><title>{escape(title)}</title>'
        f"<style>{_CSS}{STYLE}</style>"
    )
    inside = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{inside}\n'
        "</main></body></html>\n"
    )


def write_page(path: str | os.PathLike[str], title: str, body: Sequence[str]) -> None:
    """Write a document beside its place and rename it, so that half of one is never read."""
    write_text(os.fspath(path), page(title, body))


def figure(chart: Chart, title: str | None = None) -> str:
    """A chart with a title above, by default its own, and its caption below."""
    top = chart.title if title is None else title
    above = f"<h3>{escape(top)}</h3>" if top else ""
    text = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    return f"<figure>{above}{draw(chart)}{text}</figure>"


def figures(parts: Sequence[str]) -> str:
    """Figures side by side where there is room."""
    return f'<div class="figures">{"".join(parts)}</div>'


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Large numbers with what they are."""
    inside = "".join(
        f'<div class="fact"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in pairs
    )
    return f'<div class="facts">{inside}</div>'


def table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], wide: bool = False, label: str = ""
) -> str:
    """A table; ``wide`` ones become a list on a phone. The ``label`` is what screen readers call it."""
    styles = [cell.style for cell in rows[0]] if rows else [""] * len(header)
    top = "".join(
        f'<th scope="col"{_class("n" if style.startswith("n") else "")}>{escape(name)}</th>'
        for name, style in zip(header, styles, strict=True)
    )
    first = 'th scope="row"'
    lines = "".join(
        f"<tr>{_cell(row[0], first)}{''.join(map(_cell, row[1:]))}</tr>" for row in rows
    )
    kind = ' class="wide"' if wide else ""
    called = f' aria-label="{escape(label or header[0])}"'
    return (
        f'<div class="scroll" role="region" tabindex="0"{called}><table{kind}{called}><thead>'
        f"<tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell(cell: Cell, tag: str = "td") -> str:
    text = escape(cell.text)
    inside = f"<blockquote>{text}</blockquote>" if cell.quote else text
    if cell.style == "bar":
        inside = f'<span aria-hidden="true">{text}</span>'
    return f"<{tag}{_class(cell.style)}>{inside}</{tag.split()[0]}>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def paragraph(text: str, style: str = "") -> str:
    """Running text."""
    return f"<p{_class(style)}>{escape(text)}</p>"


def heading(text: str) -> str:
    """The title of a section."""
    return f"<h2>{escape(text)}</h2>"


def fold(title: str, parts: Sequence[str]) -> str:
    """A section that the reader opens."""
    inside = "\n".join(parts)
    return f"<details><summary><h2>{escape(title)}</h2></summary>\n{inside}\n</details>"


def origin(command: str | None) -> list[str]:
    """The exact command and the versions that made the page."""
    rows = [[Cell("Python"), Cell(platform.python_version())]]
    rows += [[Cell(name), Cell(found)] for name, found in versions().items()]
    rows.append([Cell("machine"), Cell(f"{platform.machine()}, {os.cpu_count()} cores")])
    shown = [f"<pre>{escape(command)}</pre>"] if command else []
    return [
        heading("How it was made"),
        *shown,
        table(("program", "version"), rows, label="Versions"),
    ]


def versions() -> dict[str, str]:
    """Versions of this library and of those that its numbers depend on."""
    found = {"ddol": __version__}
    for name in ("numpy", "scipy", "numba", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
