"""Data files that were damaged: the command line reads them, or refuses them by name with exit code 2."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import scipy.sparse as sp
from click.testing import CliRunner
from tests.hostile.mutations import damaged

from ddol.cli.app import app

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 5)).round(2)
Y = (X[:, 0] > 0).astype(int)


def _saved(save, *values, **named) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *values, **named)
    return buffer.getvalue()


def _sparse() -> dict[str, np.ndarray]:
    matrix = sp.csr_matrix(X * (np.abs(X) > 1))
    return {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}


FRAME = pl.DataFrame({"label": Y, "a": X[:, 0], "b": X[:, 1], "word": ["x", "y", "zz"] * 20})
TEXT = "".join(f"{y} 1:{x[0]} 2:{x[1]} 5:{x[4]}\n" for x, y in zip(X, Y, strict=True))
WHOLE = {
    "a.npy": _saved(np.save, np.column_stack([Y, X])),
    "a.npz": _saved(np.savez, X=X, y=Y),
    "b.npz": _saved(np.savez_compressed, y=Y, **_sparse()),
    "a.parquet": _saved(lambda file: FRAME.write_parquet(file, row_group_size=25)),
    "b.parquet": _saved(lambda file: FRAME.write_parquet(file, compression="uncompressed")),
    "a.csv": FRAME.write_csv().encode(),
    "a.libsvm": TEXT.encode(),
    "a.jsonl": FRAME.write_ndjson().encode(),
}


def damaged_data(first: int, tries: int) -> dict[str, str]:
    """Every kind of file in turn."""
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(first, first + tries):
            print("at", number, flush=True)
            name = list(WHOLE)[number % len(WHOLE)]
            way, data = damaged(WHOLE[name], number)
            said = _trained(name, data)
            if said:
                wrong[f"{number} {name} {way}"] = said
        os.chdir("/")
    return wrong


def _trained(name: str, data: bytes) -> str:
    """What is wrong with the treatment of a file, if anything."""
    Path(name).write_bytes(data)
    arguments = ["train", name, "--algorithm", "dogd", "--agents", "2", "--quiet"]
    done = CliRunner().invoke(app, arguments)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ddol: ")]
    # A flipped bit may make a value that is large, and the file as good as before.
    if done.exit_code == 0 or (done.exit_code == 1 and "left the range of numbers" in done.stderr):
        return ""
    if done.exit_code != 2 or "Traceback" in done.stderr:
        return f"exit code {done.exit_code}: {done.stderr[-200:]}{done.exception!r}"
    return "" if lines and name in lines[-1] else f"no name: {done.stderr[-200:]}"
