"""Files that earlier formats wrote are read, go on, and can be converted."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.earlier import field_names, in_place, lifted
from ddol.engines.state import layout_of
from ddol.storage import FORMAT, read_arrays, write_arrays
from ddol.streams import DataError
from ddol.update.layout import Field, Layout

HERE = Path(__file__).parent / "format4"
RUNS = {
    "adaptive": "t.csv --algorithm adaptive --loss logistic --agents 3 --topology ring --delay 1",
    "coin": "t.csv --algorithm coin --agents 2",
    "newton": "r.csv --algorithm newton --agents 2 --loss squared",
    "sketch": "t.csv --algorithm newton --rank 2 --loss logistic --agents 2",
    "dogd": "m.csv --algorithm dogd --agents 2 --topology path",
    "dual-averaging": "t.csv --algorithm dual-averaging --l1 0.01",
    "dwm-i": "t.csv --algorithm dwm-i --agents 2 --experts 3",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What format 4 left, in a folder of one's own."""
    shutil.copytree(HERE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(command):
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output + done.stderr
    return done.stdout


def data_of(name):
    return RUNS[name].split()[0]


@pytest.mark.parametrize("name", RUNS)
def test_a_model_of_format_4_predicts_as_it_did(folder, name):
    expected = Path(f"{name}.txt").read_text()
    found = said(f"predict {name}.ddol {data_of(name)}")
    same(found, expected)
    said(f"convert {name}.ddol new.ddol")
    assert read_arrays("new.ddol", "model")[1]["format"] == FORMAT
    same(said(f"predict new.ddol {data_of(name)}"), expected)


def same(found, expected):
    if expected[:1].isdigit():
        assert np.allclose(np.loadtxt(found.split()), np.loadtxt(expected.split()), rtol=1e-12)
    else:
        assert found == expected


@pytest.mark.parametrize("name", ["coin", "sketch", "dogd", "dual-averaging", "dwm-i"])
def test_a_checkpoint_of_format_4_goes_on(folder, name):
    """To where it would have ended, also after it was converted; but for steps that have changed since."""
    said(f"convert {name} converted")
    whole = Path(f"{name}.txt").read_text()
    for place in (name, "converted"):
        run = f"train {RUNS[name]} --checkpoint {place} --every 10 --resume --quiet"
        said(f"{run} --model {place}.now")
        same(said(f"predict {place}.now {data_of(name)}"), whole)


def test_a_state_finds_its_place_in_a_layout_that_has_changed():
    old = Layout(rows=("a", "b"), scalars=("s",))
    new = Layout(rows=("b", Field("c", start=7.0)), scalars=("s", Field("t", start=-1.0)))
    theta, scalars = np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([[5.0]])
    rows, numbers = in_place(new, field_names(old), theta, scalars, "m.ddol")
    assert rows.tolist() == [[[3.0, 4.0], [7.0, 7.0]]] and numbers.tolist() == [[5.0, -1.0]]
    with pytest.raises(DataError, match="another algorithm"):
        in_place(Layout(rows=("x",)), field_names(old), theta, scalars, "m.ddol")
    with pytest.raises(DataError, match="2 rows and 1 scalars, expected 1"):
        in_place(new, {"rows": ["b"], "scalars": ["s"]}, theta, scalars, "m.ddol")


@pytest.mark.parametrize(
    "preset", [ddol.adaptive(), ddol.coin(), ddol.newton(), ddol.newton(rank=3)]
)
def test_names_of_format_4_are_those_that_the_fields_still_have(preset):
    """Where a layout changes, this test says which fields format 4 has that are lost."""
    layout = layout_of(preset.on(1), 5)
    since = {"moved", "n_moved", "was_centre", "was_inverse", "highest", "lowest"}
    rows = sum(field.name not in since for field in layout.row_fields)
    scalars = sum(field.name not in since for field in layout.scalar_fields)
    header = {"format": 4, "recipe": {"made": {"preset": preset.name}}}
    arrays = {"theta": np.zeros((1, 1, rows, 5)), "scalars": np.zeros((1, 1, scalars))}
    _, found = lifted("model", arrays, header)
    for part, names in field_names(layout).items():
        assert found["layout"][part] == [name for name in names if name not in since]


def test_a_format_that_nobody_reads_is_refused_in_one_line(tmp_path):
    for number, advice in ((3, "write it again"), (FORMAT + 1, "upgrade ddol")):
        path = tmp_path / "m.ddol"
        write_arrays(path, "model", {}, {"format": number})
        with pytest.raises(
            DataError, match=rf"found format {number} .*expected format 4 to 5; {advice}"
        ):
            ddol.load(path)


def test_a_folder_without_checkpoints_is_no_input_of_convert(tmp_path):
    done = CliRunner().invoke(app, ["convert", str(tmp_path), str(tmp_path / "new")])
    assert done.exit_code == 2 and "found no checkpoints" in done.stderr
