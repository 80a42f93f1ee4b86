"""``ddol export``: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddol.cli.flags import Command, debug, flag, without_blas_threads

if TYPE_CHECKING:
    from ddol.linear.form import LinearForm
    from ddol.model import Model

FORMS = ("json", "sklearn", "vw", "onnx")


@click.command(cls=Command)
@click.argument("model")
@flag("--to FORM", "What to write.", type=click.Choice(FORMS), required=True)
@flag("-o --out FILE", "Where to write it.", name="out", required=True)
@flag("--agent NAME", "Export this agent, by its name or its number; by default all together.")
@flag("--check FILE", "Data to compare predictions on; the figures go to standard error.")
@debug
def export(model: str, to: str, out: str, agent: str | None, check: str | None) -> None:
    """Write a linear model for other programs, with all standardisation folded in.

    json: complete and exact, for any program. sklearn: a fitted Pipeline in a joblib file, which runs code
    when it is loaded. onnx: a graph of double numbers. vw: Vowpal Wabbit's readable text, which cannot say
    that features are clipped: of such a model it is an approximation, written only with --check.

    MODEL: a file that `ddol train --model` wrote.
    """
    without_blas_threads()
    from ddol.cli.table import say
    from ddol.model import load
    from ddol.storage import check_writable

    check_writable(out)
    known = load(model)
    form = known.linear_form(agent)
    if to == "vw" and form.is_clipped and check is None:
        raise ValueError(
            f"{model}: found a model that clips features, which VW cannot say; add --check FILE to see "
            "how far its predictions are off, or use --to json"
        )
    _write(form, to, out)
    if check is not None:
        say(_compared(known, form, to, agent, check))


def _write(form: LinearForm, to: str, out: str) -> None:
    if to == "json":
        from ddol.linear.json_file import write_json

        write_json(form, out)
    elif to == "vw":
        from ddol.linear.vw_text import write_vw

        write_vw(form, out)
    elif to == "onnx":
        from ddol.linear.onnx_file import write_onnx

        write_onnx(form, out)
    else:
        import joblib  # type: ignore[import-untyped]

        from ddol.cli.table import say
        from ddol.linear.estimators import to_sklearn
        from ddol.storage import written_beside
        from ddol.update.losses import loss_named

        made = to_sklearn(form)
        with written_beside(out) as beside:
            joblib.dump(made, beside)
        if loss_named(form.loss).probability is not None and not hasattr(made, "predict_proba"):
            say(f"scikit-learn gives no probabilities for the loss {form.loss}; --to onnx does")
        say(f"{out} is a joblib file: loading it runs code, so load only those that you trust")


def _compared(model: Model, form: LinearForm, to: str, agent: str | None, check: str) -> str:
    """How far the exported scores are from the model's, on data."""
    import numpy as np

    from ddol.cli.predict import read_ahead
    from ddol.streams.formats import ReadOptions
    from ddol.streams.open import open_stream

    clipped, encoding = to != "vw", model.encoding
    n, worst, beyond, changed = 0, 0.0, 0.0, 0
    stream = open_stream(check, ReadOptions(known=encoding.kinds))
    for rows, _ in read_ahead(model.encoder(), stream):
        own = np.asarray(model.scores(rows, agent)).reshape(len(rows), -1)
        X = rows.plain().to_scipy().toarray()[:, int(encoding.intercept) :]
        X = np.pad(X, ((0, 0), (0, len(form.features) - X.shape[1])))
        found = form.scores(X, clipped)
        worst = max(worst, float(np.abs(found - own).max(initial=0.0)))
        beyond += form.share_beyond(X) * len(rows)
        n += len(rows)
        if form.encoding.classes is not None:
            changed += int(np.sum(model.labels_of(_flat(found)) != model.labels_of(_flat(own))))
    if not n:
        return f"{check}: found no examples to compare"
    text = f"{n:,} examples of {check}: scores differ by at most {worst:.2g}"
    if form.encoding.classes is not None:
        text += f", {changed} of the labels differ"
    return text + f"; a feature is clipped in {100 * beyond / n:.1f} % of the rows"


def _flat(scores: Any) -> Any:
    return scores[:, 0] if scores.shape[1] == 1 else scores


@click.command(cls=Command)
@click.argument("old")
@click.argument("new")
@debug
def convert(old: str, new: str) -> None:
    """Write a model, a checkpoint, or a folder of checkpoints of an earlier version in the present format.

    Files of earlier versions are read as they are, too; convert those that have to last longer than the
    major version.

    OLD: a model, a checkpoint, or a folder of --checkpoint. NEW: where to write.
    """
    from ddol.checkpoint import saved_in

    source, target = Path(old), Path(new)
    if not source.is_dir():
        _convert_file(source, target)
        return
    found = saved_in(source)
    if not found:
        raise ValueError(f"{old}: found no checkpoints, expected checkpoint-….safetensors")
    target.mkdir(parents=True, exist_ok=True)
    for _, path in found:
        _convert_file(Path(path), target / Path(path).name)


def _convert_file(source: Path, target: Path) -> None:
    from ddol.checkpoint import read_checkpoint, write_checkpoint
    from ddol.model import load
    from ddol.storage import check_writable, kind_of

    check_writable(target)
    if kind_of(source) == "checkpoint":
        write_checkpoint(target, read_checkpoint(source))
    else:
        load(source).save(target)
