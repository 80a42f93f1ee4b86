"""``ddol evaluate``: how well a model predicts examples whose labels are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ddol.cli.predict import limited, read_ahead
from ddol.cli.table import say, show, warn
from ddol.job.evaluation import ClassEvaluation, NumberEvaluation, evaluation_of
from ddol.job.options import DataOptions
from ddol.job.outputs import STDOUT, check_outputs, warn_of_skipped, write_json
from ddol.model import SHARED, Model, load
from ddol.streams.coding.labels import listed
from ddol.streams.open import expand, open_stream, partition_name


def evaluate(path: str, data: DataOptions, json: str | None, agent: str | None = None) -> None:
    """Print how well a model predicts data, and write it as JSON.

    Parameters
    ----------
    path : str
        Of the model.
    data : DataOptions
    json : str or None
        File name; ``-`` is standard output, which then has nothing else.
    agent : str or None
        Who predicts all files; None for the sites that they are named after, and else for all together.
    """
    check_outputs(json, read=[path, *expand(data.data)])
    model = load(path)
    found = figures_of(model, data, agent)
    if model.classes is not None and not model.has_chances:
        say(
            f"no log loss: the loss {model.loss} gives no probabilities; train with --loss logistic"
        )
    if json != STDOUT:
        for line in lines_of(found):
            show(line)
    if json is not None:
        write_json(json, found)


def figures_of(model: Model, data: DataOptions, agent: str | None = None) -> dict[str, Any]:
    """Figures over all files, and of each site by itself.

    A file that is named after a site is predicted as that site would, any other one as all of them together.
    """
    if agent is not None and model.agent_number(agent, warn) is None:
        agent = SHARED
    whole = evaluation_of(model.classes)
    sites: dict[str, ClassEvaluation | NumberEvaluation] = {}
    skipped, left = 0, data.limit
    files = expand(data.data)
    who = [(file, _site_of(model, file) if agent is None else agent) for file in files]
    _tell_strangers(model, who)
    for file, site in who:
        before = whole.examples
        counts = [whole]
        if site is not None:
            counts.append(sites.setdefault(site, evaluation_of(model.classes)))
        skipped += _count(model, file, replace(data, limit=left), counts, site)
        left = None if left is None else left - (whole.examples - before)
    return {
        "task": "regression" if model.classes is None else "classification",
        **whole.figures(),
        "skipped_lines": skipped,
        "agents": {site: own.figures() for site, own in sites.items()},
    }


def _site_of(model: Model, file: str) -> str | None:
    """The site of the file's path, where several files have one name, or else of its name."""
    return next((n for n in (file, partition_name(file)) if n in model.encoding.sites), None)


def _tell_strangers(model: Model, who: Sequence[tuple[str, str | None]]) -> None:
    """Warn of files of which no site of the model has the name, where the others are sites."""
    strange = [partition_name(file) for file, site in who if site is None]
    if not strange or not (model.keeps_own or len(strange) < len(who)):
        return
    each = "is predicted" if len(strange) == 1 else "are predicted"
    by = (
        "the mean of all sites' scores, each in its own units"
        if model.keeps_own
        else "what all share"
    )
    warn(
        f"no site of the model is called {listed(strange, 5)}, which {each} by {by}; known are "
        f"{listed(model.encoding.sites, 8)}; name one with --agent"
    )


def _count(
    model: Model,
    file: str,
    data: DataOptions,
    counts: list[ClassEvaluation | NumberEvaluation],
    site: str | None,
) -> int:
    """Count the examples of a file; lines that were skipped."""
    stream = limited(open_stream(file, replace(data, known=model.encoding.kinds)), data.limit)
    encoder = model.encoder(labelled=True, skip=data.on_bad_line == "skip", warn=warn)
    for rows, _ in read_ahead(encoder, stream):
        scores = model.scores(rows, site)
        chances = model.chances_of(scores) if model.has_chances else None
        for each in counts:
            each.add(rows.y, scores, chances)
    return warn_of_skipped([stream], encoder, warn)


def lines_of(found: dict[str, Any]) -> list[str]:
    """The figures for people to read."""
    lines = [f"examples   {found['examples']:,}"]
    if found["task"] == "regression":
        lines += [f"{name:<10} {_shown(found[key])}" for name, key in _NUMBERS]
    else:
        lines += [f"{name:<10} {_shown(found[key])}" for name, key in _CLASSES]
        lines += ["", "confusion (rows: the true class, columns: the predicted one)"]
        lines += _matrix(found["classes"], found["confusion"])
    if found["agents"]:
        names = _NUMBERS if found["task"] == "regression" else _CLASSES
        lines += ["", f"{'agent':<16} {'examples':>10} " + " ".join(f"{n:>10}" for n, _ in names)]
        for site, own in found["agents"].items():
            cells = " ".join(f"{_shown(own[key]):>10}" for _, key in names)
            lines.append(f"{site:<16} {own['examples']:>10,} {cells}")
    return lines


_CLASSES = (("accuracy", "accuracy"), ("log loss", "log_loss"), ("AUC", "auc"))
_NUMBERS = (("R²", "r2"), ("MAE", "mae"), ("RMSE", "rmse"))


def _matrix(classes: list[Any], confusion: list[list[int]]) -> list[str]:
    names = [str(label) for label in classes]
    width = max(len(cell) for cell in [*names, *(f"{n:,}" for row in confusion for n in row)]) + 2
    lines = [" " * width + "".join(f"{name:>{width}}" for name in names)]
    for name, row in zip(names, confusion, strict=True):
        lines.append(f"{name:>{width}}" + "".join(f"{n:>{width},}" for n in row))
    return lines


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"
