"""Sites whose columns, kinds, labels or units differ: one schema, or a question that stops the run."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ddol as library

COLUMNS = ("vote", "a", "b", "age", "town", "code")


def written(path, columns, labels=("no", "yes"), seed=0, n=120, **changes):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        a, b = rng.standard_normal(2).round(3).tolist()
        row = {"a": a, "b": b, "vote": labels[a + b > 0], "age": float(rng.integers(20, 80))}
        row |= {"town": str(rng.choice(["Rome", "Bern"])), "code": int(rng.integers(1, 30))}
        rows.append({name: changes.get(name, lambda value: value)(row[name]) for name in columns})
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def ending(request):
    return request.param


def train(ddol, *words):
    return ddol("train", *words, "--label", "vote")


def refused(done):
    assert done.exit_code == 2, done.stderr
    return done.stderr


def accuracy(ddol, model, path):
    done = ddol("evaluate", model, path, "--json", "-")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["accuracy"]


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_a_column_that_a_site_lacks_is_missing_values(ddol, tmp_path, ending, missing):
    one = written(tmp_path / f"one.{ending}", ("vote", "a", "b", "age", "town"), seed=1)
    two = written(tmp_path / f"two.{ending}", ("b", "vote", "a"), seed=2)
    assert "found no column 'age'" in refused(train(ddol, one, two, "--quiet"))
    models = [tmp_path / "m12", tmp_path / "m21"]
    for model, files in zip(models, ((one, two), (two, one)), strict=True):
        done = train(ddol, *files, "--missing", missing, "--model", model)
        assert done.exit_code == 0 and "two: 120 rows looked at" in done.stderr, done.stderr
        assert "lacks age, town" in done.stderr
    # The same schema and the same model, whichever file comes first; a site's own file fits it.
    first, second = (library.load(model) for model in models)
    assert first.encoding.columns == second.encoding.columns
    assert first.encoding.optional == ("age", "town")
    for path in (one, two):
        found = [accuracy(ddol, model, path) for model in models]
        assert found[0] == pytest.approx(found[1], abs=0.02) and found[0] > 0.85


def test_a_column_to_drop_need_not_be_in_every_file(ddol, tmp_path, ending):
    one = written(tmp_path / f"one.{ending}", ("vote", "a", "b", "age"), seed=1)
    two = written(tmp_path / f"two.{ending}", ("vote", "a", "b"), seed=2)
    for files in ((one, two), (two, one)):
        assert train(ddol, *files, "--drop", "age").exit_code == 0
        assert "no column 'agee' to drop" in refused(train(ddol, *files, "--drop", "agee"))


@pytest.mark.parametrize("labels", [("No", "Yes"), (0, 1), ("no", "Yes"), ("no", "maybe")])
def test_labels_that_differ_are_a_question(ddol, tmp_path, ending, labels):
    columns = ("a", "vote", "b")
    one = written(tmp_path / f"one.{ending}", columns, seed=1)
    two = written(tmp_path / f"two.{ending}", columns, labels, seed=2)
    said = refused(train(ddol, one, two, "--quiet"))
    assert (
        "one." in said and "has no, yes" in said and "--labels-map" in said and "--labels " in said
    )
    file, model = tmp_path / "map.txt", tmp_path / "m"
    file.write_text("# other spellings\nno=No,0\nyes=Yes,1,maybe\n")
    for given in (("no=No,0", "yes=Yes,1,maybe"), (file,)):
        flags = [word for text in given for word in ("--labels-map", text)]
        done = train(ddol, one, two, *flags, "--model", model)
        assert done.exit_code == 0 and "2 classes: no, yes" in done.stderr, done.stderr
        assert accuracy(ddol, model, two) > 0.85 and accuracy(ddol, model, one) > 0.85
    every = ",".join(sorted({"no", "yes", *map(str, labels)}))
    assert train(ddol, one, two, "--labels", every).exit_code == 0
    assert "expected a line such as no=No,0" in refused(
        train(ddol, one, two, "--labels-map", "no=")
    )


@pytest.mark.parametrize(
    ("labels", "said"), [(("No", "Yes"), "no=No "), (("ja", "nein"), "LABEL=OTHER ")]
)
def test_a_map_is_proposed_for_labels_that_are_spelled_alike_only(ddol, tmp_path, labels, said):
    one = written(tmp_path / "one.csv", ("vote", "a"), seed=1)
    two = written(tmp_path / "two.csv", ("vote", "a"), labels, seed=2)
    assert f"--labels-map {said}" in refused(train(ddol, one, two, "--quiet"))


def test_a_site_that_has_some_of_the_labels_is_none(ddol, tmp_path):
    one = written(tmp_path / "one.csv", ("vote", "a", "b"), seed=1)
    two = written(tmp_path / "two.csv", ("vote", "a", "b"), ("no", "no"), seed=2)
    assert train(ddol, one, two, "--quiet").exit_code == 0
    many = [tmp_path / "p.libsvm", tmp_path / "q.libsvm"]
    for k, path in enumerate(many):
        path.write_text("".join(f"{j % 3 + k} 1:{j % 3}\n" for j in range(60)))
    assert "p.libsvm has 0, 1, 2; " in refused(ddol("train", *many))
    assert ddol("train", *many, "--labels", "0,1,2,3", "--quiet").exit_code == 0


def test_a_number_here_and_text_there_is_a_question(ddol, tmp_path, ending):
    columns = ("vote", "a", "b", "code")
    one = written(tmp_path / f"one.{ending}", columns, seed=1)
    two = written(tmp_path / f"two.{ending}", columns, seed=2, code="K{}".format)
    for files in ((one, two), (two, one)):
        said = refused(train(ddol, *files, "--quiet"))
        assert f"two.{ending}" in said and "column 'code'" in said and "'K" in said
        assert "--text code" in said and "--number code" in said
    done = train(ddol, one, two, "--text", "code")
    assert done.exit_code == 0 and "3 columns (1 of text)" in done.stderr
    assert "found the text 'K" in refused(train(ddol, one, two, "--number", "code"))


def test_a_column_that_is_empty_at_one_site_has_the_kind_of_the_others(ddol, tmp_path):
    one = written(tmp_path / "one.csv", ("vote", "a", "b", "town"), seed=1, town=lambda _: "")
    two = written(tmp_path / "two.csv", ("vote", "a", "b", "town"), seed=2)
    done = train(ddol, one, two, "--missing", "zero")
    assert done.exit_code == 0 and "(1 of text)" in done.stderr and "town 100 %" in done.stderr


def test_labels_in_other_columns_are_a_question(ddol, tmp_path):
    one = written(tmp_path / "one.csv", ("vote", "a", "town"), seed=1)
    two = written(tmp_path / "two.csv", ("town", "vote", "a"), seed=2)
    said = refused(ddol("train", one, two))
    assert "'vote' in" in said and "'town' in" in said and "--label" in said


def test_a_schema_is_written_and_read(ddol, tmp_path, ending):
    one = written(tmp_path / f"one.{ending}", ("vote", "a", "b", "town", "code"), seed=1)
    two = written(tmp_path / f"two.{ending}", ("code", "a", "vote"), (0, 1), seed=2)
    schema = tmp_path / "schema.json"
    flags = (
        "--schema",
        schema,
        "--missing",
        "mean",
        "--labels-map",
        "no=0",
        "--labels-map",
        "yes=1",
    )
    done = train(ddol, one, two, *flags, "--text", "code", "--quiet")
    assert done.exit_code == 0, done.stderr
    said = json.loads(schema.read_text())
    assert said["columns"] == {"a": "number", "b": "number", "code": "text", "town": "text"}
    assert said["labels"] == ["no", "yes"] and said["optional"] == ["b", "town"]
    # Another site, alone, with that schema: the same columns, kinds and labels.
    model = tmp_path / "m"
    given = ("--schema", schema, "--missing", "mean", "--agents", 1, "--model", model)
    done = ddol("train", two, *given)
    assert done.exit_code == 0 and "vote (2 classes: no, yes), 4 columns (2 of text)" in done.stderr
    assert json.loads(schema.read_text()) == said
    schema.write_text('{"colums": {}}')
    assert "found 'colums'" in refused(ddol("train", two, *given))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_other_units_at_one_site_are_reported(ddol, tmp_path, n):
    paths = [tmp_path / f"site{k}.csv" for k in range(n)]
    for k, path in enumerate(paths):
        scale = 1000.0 if k == n - 1 else 1.0
        written(path, ("vote", "a", "b"), seed=k, a=lambda value, s=scale: value * s)
    done = train(ddol, *paths, "--units", "shared")
    [warning] = [line for line in done.stderr.splitlines() if "deviation" in line]
    assert f"site{n - 1}: column 'a'" in warning and "--statistics own" in warning
    own = train(ddol, *paths)
    assert own.exit_code == 0 and "warning: site" not in own.stderr
    assert "sites differ: the deviation of column 'a' is" in own.stderr
    other = train(ddol, *paths, "--algorithm", "dogd")
    assert "deviation" in other.stderr and "--statistics" not in other.stderr
    assert "deviation" not in train(ddol, *paths[:-1], "--agents", n - 1).stderr


def test_sites_that_differ_keep_units_of_their_own(ddol, tmp_path):
    paths = [tmp_path / f"site{k}.csv" for k in range(4)]
    for k, path in enumerate(paths):
        shift = 2.0 if k == 1 else 0.0
        written(path, ("vote", "a", "b"), seed=k, a=lambda value, s=shift: value + s)
    models = {name: tmp_path / name for name in ("found", "own", "shared", "again")}

    def mistakes(name, *words):
        done = train(ddol, *paths, "--model", models[name], "--json", tmp_path / "j", *words)
        assert done.exit_code == 0, done.stderr
        return sum(json.loads((tmp_path / "j").read_text())["mistakes"]), done.stderr

    found, said = mistakes("found")
    assert (
        "sites differ: the mean of column 'a' is" in said
        and " at site1 and " in said
        and "--units shared" in said
    )
    own, quiet = mistakes("own", "--units", "own")
    shared, other = mistakes("shared", "--units", "shared")
    assert found == own < shared and "sites differ" not in quiet + other
    assert library.load(models["found"]).keeps_own and not library.load(models["shared"]).keeps_own
    # What was found goes on: with the model, with a checkpoint, and for its rows.
    _, said = mistakes("again", "--initial", models["found"])
    assert library.load(models["again"]).keeps_own and "sites differ" not in said
    kept = ("--checkpoint", tmp_path / "kept", "--every", 40)
    mistakes("again", *kept, "--limit", 240)
    whole, _ = mistakes("again", *kept, "--limit", 240, "--resume", "--passes", 1)
    assert library.load(models["again"]).keeps_own and whole > 0
    alike = [paths[0], paths[2], paths[3]]
    done = train(ddol, *alike, "--model", models["shared"])
    assert "sites differ" not in done.stderr and not library.load(models["shared"]).keeps_own


def test_a_site_that_joins_later_may_lack_columns(ddol, tmp_path):
    columns = ("vote", "a", "b", "age", "town")
    one = written(tmp_path / "one.csv", columns, seed=1)
    two = written(tmp_path / "two.csv", columns, seed=2)
    late = written(tmp_path / "late.csv", ("a", "b", "vote"), seed=3)
    first, model = tmp_path / "first", tmp_path / "next"
    assert train(ddol, one, two, "--missing", "mean", "--model", first).exit_code == 0
    done = ddol("train", one, late, "--initial", first, "--model", model)
    assert done.exit_code == 0 and "late is new" in done.stderr, done.stderr
    assert accuracy(ddol, model, late) > 0.85


@pytest.mark.parametrize("sparse", [False, True])
def test_units_that_change_while_learning_are_reported(ddol, tmp_path, sparse):
    paths = [tmp_path / f"site{k}.csv" for k in range(3)]
    columns = ("vote", "a", "b", "town") if sparse else ("vote", "a", "b")
    for k, path in enumerate(paths):
        head, *lines = written(path, columns, seed=k, n=300).read_text().splitlines()
        late = [line.split(",") for line in lines]
        for cells in late if k == 1 else ():
            cells[1] = str(1000 * float(cells[1]))
        path.write_text("\n".join([head, *1000 * lines, *90 * [*map(",".join, late)]]) + "\n")
    figures, lines = tmp_path / "f.json", tmp_path / "l.jsonl"
    told = ("--json", figures, "--progress-json", lines)
    done = train(ddol, *paths, "--units", "shared", *told)
    assert done.exit_code == 0, done.stderr
    [warning] = [line for line in done.stderr.splitlines() if "deviation" in line]
    assert warning.startswith("warning: site1: column 'a' has now mean")
    assert "units changed while learning: site1 (a)" in done.stderr
    [found] = json.loads(figures.read_text())["units"]
    assert (found["site"], found["column"], found["when"]) == ("site1", "a", "while learning")
    again = train(ddol, *paths, "--units", "own")
    assert again.exit_code == 0 and "deviation" not in again.stderr
