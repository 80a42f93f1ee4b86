"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

DATA, ALGORITHM, NETWORK, RUN, OUT = "Data", "Algorithm", "Network", "Run", "What it leaves"


def option(panel: str, text: str, *names: str, **more: Any) -> Any:
    """An option in one of the panels of the help page."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def _remember_debug(ctx: typer.Context, wanted: bool) -> bool:
    if wanted:
        ctx.find_root().meta["debug"] = True
    return wanted


Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        is_eager=True,
        callback=_remember_debug,
        help="Show the traceback of an error.",
    ),
]
Format = Annotated[
    str | None,
    option(
        DATA,
        "libsvm, csv, tsv, parquet, npy or npz; by default the file's ending decides.",
        metavar="NAME",
    ),
]
Label = Annotated[
    str | None, option(DATA, "Label column of a table: name or number.", metavar="COLUMN")
]
ZeroBased = Annotated[bool, option(DATA, "LIBSVM indices begin at 0, not 1.", "--zero-based")]
