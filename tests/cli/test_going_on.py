"""Models that are gone on from, and predictions written while learning."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ddol as library


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def halves(tmp_path, text_of):
    lines = text_of(n=400).splitlines(keepends=True)
    paths = [tmp_path / name for name in ("whole", "first", "second")]
    for path, part in zip(paths, (lines, lines[:200], lines[200:]), strict=True):
        path.write_text("".join(part))
    return paths


@pytest.mark.parametrize("algorithm", ["adaptive", "dogd", "doeg", "coin"])
@pytest.mark.parametrize("topology", ["complete", "ring"])
def test_two_halves_are_the_whole(ddol, halves, tmp_path, algorithm, topology):
    whole, first, second = halves
    options = ("--algorithm", algorithm, "--topology", topology, "--features", 4, "--json", "-")
    one = figures(ddol("train", first, *options, "--model", tmp_path / "m"))
    two = figures(ddol("train", second, *options, "--initial", tmp_path / "m"))
    all_at_once = figures(ddol("train", whole, *options))
    assert np.add(one["mistakes"], two["mistakes"]).tolist() == all_at_once["mistakes"]
    assert two["final_weights_norm"] == pytest.approx(all_at_once["final_weights_norm"])
    assert two["examples"] == 200 and two["rounds"] == 50


def test_other_agents_begin_with_the_mean(ddol, halves, tmp_path):
    _, first, second = halves
    ring = ("--topology", "ring", "--agents", 5)
    assert ddol("train", first, *ring, "--model", tmp_path / "m", "--quiet").exit_code == 0
    found = figures(ddol("train", second, "--initial", tmp_path / "m", "--json", "-"))
    cold = figures(ddol("train", second, "--json", "-"))
    assert sum(found["mistakes"]) < sum(cold["mistakes"])


def test_a_sketch_of_newton_goes_on(ddol, halves, tmp_path):
    _, first, second = halves
    sketch = ("--algorithm", "newton", "--rank", 3)
    ring = (*sketch, "--topology", "ring", "--agents", 5, "--model", tmp_path / "m", "--quiet")
    assert ddol("train", first, *ring).exit_code == 0
    found = figures(ddol("train", second, *sketch, "--initial", tmp_path / "m", "--json", "-"))
    cold = figures(ddol("train", second, *sketch, "--json", "-"))
    assert sum(found["mistakes"]) < sum(cold["mistakes"])
    wrong = ddol("train", first, "--rank", 3)
    assert wrong.exit_code == 2 and "--rank does not go with the algorithm adaptive" in wrong.stderr


def test_models_of_something_else_are_refused(ddol, halves, tmp_path, text_of):
    _, first, second = halves
    model = tmp_path / "m"
    assert ddol("train", first, "--model", model, "--quiet").exit_code == 0
    other = ddol("train", second, "--algorithm", "dogd", "--initial", model)
    assert other.exit_code == 2 and "add --algorithm adaptive" in other.stderr
    hashed = ddol("train", second, "--bits", 8, "--initial", model)
    assert hashed.exit_code == 2 and "--bits 8" in hashed.stderr
    second.write_text(text_of(n=50, labels=(7, 8)))
    labels = ddol("train", second, "--initial", model)
    assert labels.exit_code == 2 and "found label" in labels.stderr


def test_a_model_of_names_learns_new_ones(ddol, tmp_path):
    for name, towns in (("a", "Rome Bern"), ("b", "Lyon Bern")):
        rows = [f"{'yes' if k % 2 else 'no'},{towns.split()[k % 2]},{k}" for k in range(100)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["label,town,k", *rows]))
    model = tmp_path / "m"
    assert ddol("train", tmp_path / "a.csv", "--model", model, "--quiet").exit_code == 0
    options = ("--initial", model, "--model", model, "--quiet")
    assert ddol("train", tmp_path / "b.csv", *options).exit_code == 0
    assert set(library.load(model).encoding.names) == {"town=Rome", "town=Bern", "town=Lyon"}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--topology", "ring"),
        ("--batch", 3),
        ("--delay", 5),
        ("--engine", "threads", "--workers", 2),
        ("--algorithm", "dwm-i"),
        ("--loss", "logistic", "--period", 4),
    ],
)
def test_progressive_predictions_make_the_mistakes_that_are_counted(
    ddol, examples, tmp_path, options
):
    out = tmp_path / "said"
    found = figures(ddol("train", examples, *options, "--predictions", out, "--json", "-"))
    said = np.array(out.read_text().split(), float)
    true = np.array([float(line.split()[0]) for line in examples.read_text().splitlines()])
    wrong = said != true
    assert len(said) == 300 and wrong.sum() == sum(found["mistakes"])
    if "--batch" not in options:
        assert [wrong[k::4].sum() for k in range(4)] == found["mistakes"]


def test_a_prediction_is_one_line_whatever_labels_and_files_are_called(ddol, tmp_path):
    files, out, report = (
        [tmp_path / name for name in ("d\udce9.jsonl", "x.jsonl")],
        tmp_path / "p",
        tmp_path / "r",
    )
    for path in files:
        labels = ("a\nb", "c\u2028d")
        lines = [json.dumps({"label": labels[k % 2], "x": k % 2}) for k in range(40)]
        path.write_text("\n".join(lines))
    model = tmp_path / "m"
    options = ("--predictions", out, "--report", report, "--model", model, "-q")
    done = ddol("train", *files, *options)
    assert done.exit_code == 0, done.stderr
    lines = out.read_text().split("\n")[:-1]
    assert len(lines) == 80 and set(lines[-2:]) == {"d\\udce9\tc\u2028d", "x\tc\u2028d"}
    said = ddol("predict", model, files[1]).stdout.split("\n")[:-1]
    assert said == ["a\\nb", "c\u2028d"] * 20


def test_predictions_of_classes_numbers_and_sites(ddol, tmp_path, text_of):
    for name, seed in (("bern", 0), ("lyon", 1)):
        (tmp_path / f"{name}.libsvm").write_text(text_of(n=60, seed=seed, labels=(1, 2, 3)))
    paths = sorted(tmp_path.glob("*.libsvm"))
    out = tmp_path / "said"
    options = ("--agents", 2, "--predictions", out, "--json", "-")
    found = figures(ddol("train", *paths, *options))
    rows = [line.split("\t") for line in out.read_text().splitlines()]
    for k, path in enumerate(paths):
        said = [label for site, label in rows if site == path.stem]
        true = [line.split()[0] for line in path.read_text().splitlines()]
        assert sum(a != b for a, b in zip(said, true, strict=True)) == found["mistakes"][k]
    numbers = figures(ddol("train", "--loss", "squared", "--predictions", out, "--json", "-"))
    said = np.array(out.read_text().split(), float)
    assert len(said) == numbers["examples"] and np.isfinite(said).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--algorithm", "drwm"), "draws its predictions"),
        (("--schedule", "gossip"), "--schedule rounds"),
    ],
)
def test_predictions_that_nobody_makes_are_refused(ddol, examples, tmp_path, options, message):
    result = ddol("train", examples, *options, "--predictions", tmp_path / "p")
    assert result.exit_code == 2 and message in result.stderr


@pytest.mark.parametrize("algorithm", ["adaptive", "coin", "dogd"])
def test_the_mean_of_agents_who_know_other_words(ddol, tmp_path, algorithm):
    rng = np.random.default_rng(0)
    path, model = tmp_path / "a.named", tmp_path / "m"
    signs = rng.choice([-1, 1], 1500)
    path.write_text("".join(f"{s} x:{s * rng.random():.3f} w{k}\n" for k, s in enumerate(signs)))
    options = ("--algorithm", algorithm, "--topology", "ring", "--json", "-")
    once = figures(ddol("train", path, *options, "--model", model))
    again = figures(ddol("train", path, *options, "--agents", 3, "--initial", model))
    assert np.isfinite(again["consensus"]) and np.isfinite(again["final_weights_norm"])
    assert sum(again["mistakes"]) <= sum(once["mistakes"])


@pytest.mark.parametrize(
    "options",
    [
        ("--label", "age"),
        ("--label", "1"),
        ("--weight", "age"),
        ("--drop", "age"),
        ("--labels", "0,1,2"),
        ("--missing", "mean"),
        ("--interactions", "age*size"),
        ("--no-intercept",),
    ],
    ids=" ".join,
)
def test_options_that_contradict_a_model_are_refused(ddol, tmp_path, options):
    rng = np.random.default_rng(0)
    path, model = tmp_path / "a.csv", tmp_path / "m"
    rows = [f"{a:.3f},{b:.3f},{int(a > b)}\n" for a, b in rng.random((50, 2))]
    path.write_text("age,size,ill\n" + "".join(rows))
    assert ddol("train", path, "--label", "ill", "--model", model, "--quiet").exit_code == 0
    for label in ("ill", "-1", "2"):
        assert ddol("train", path, "--label", label, "--initial", model, "-q").exit_code == 0
    result = ddol("train", path, "--initial", model, *options)
    assert result.exit_code == 2 and f"{options[0]}" in result.stderr, result.stderr


def test_a_model_of_another_loss_is_not_gone_on_from(ddol, examples, tmp_path):
    model = tmp_path / "m"
    options = ("train", examples, "--quiet")
    assert ddol(*options, "--loss", "hinge", "--model", model).exit_code == 0
    refused = ddol(*options, "--initial", model)
    assert refused.exit_code == 2 and "add --loss hinge" in refused.stderr
    assert ddol(*options, "--initial", model, "--loss", "hinge").exit_code == 0


def test_a_run_with_text_and_means_of_columns_goes_on(ddol, tmp_path):
    """Running sums are no positions, and may be below 0."""
    rng = np.random.default_rng(0)
    rows = [
        f"{'' if k % 7 == 3 else -1e6 * rng.random():},{'ab'[k % 2]},{int(rng.random() < 0.5)}"
        for k in range(2000)
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x,town,label", *rows]))
    folder, model = tmp_path / "run", tmp_path / "m"
    run = ("train", path, "--missing", "mean", "--checkpoint", folder, "--every", 100)
    whole = figures(ddol(*run, "--model", model, "--json", "-"))
    means = library.load(model).encoding.means
    max(folder.glob("*.safetensors"), key=lambda each: each.stat().st_mtime_ns).unlink()
    again = figures(ddol(*run, "--model", model, "--json", "-", "--resume"))
    assert again["mistakes"] == whole["mistakes"] and library.load(model).encoding.means == means


@pytest.mark.parametrize("options", [(), ("--delay", 3), ("--query", 0.3), ("--passes", 2)])
def test_predictions_of_a_resumed_run_are_those_of_the_whole_one(ddol, tmp_path, text_of, options):
    path, out, folder = tmp_path / "a.libsvm", tmp_path / "p", tmp_path / "run"
    path.write_text(text_of(2000))
    run = ("train", path, *options, "--predictions", out, "--checkpoint", folder, "--every", 400)
    assert ddol(*run, "-q").exit_code == 0
    whole = out.read_text()
    assert whole.count("\n") == figures(ddol("train", path, *options, "--json", "-"))["examples"]
    max(folder.glob("*.safetensors"), key=lambda each: each.stat().st_mtime_ns).unlink()
    done = ddol(*run, "--resume", "-q")
    assert done.exit_code == 0 and out.read_text() == whole and "lacks" not in done.stderr
    out.unlink()
    done = ddol(*run, "--resume")
    assert done.exit_code == 0 and "lacks" in done.stderr and whole.endswith(out.read_text())


def test_means_outlive_a_site_that_had_ended_before_the_checkpoint(ddol, tmp_path):
    """What is resumed behind a file's last row reads nothing of it any more."""
    rng = np.random.default_rng(0)
    for name, n in (("long.csv", 21_000), ("short.csv", 200)):
        rows = [f"{'' if k % 7 == 3 else 5 + rng.random():},{k % 2}" for k in range(n)]
        (tmp_path / name).write_text("\n".join(["x,label", *rows]))
    folder, model = tmp_path / "run", tmp_path / "m"
    files = tmp_path / "long.csv", tmp_path / "short.csv"
    run = ("train", *files, "--missing", "mean", "--checkpoint", folder, "--every", 9_000)
    assert ddol(*run, "--model", model, "-q").exit_code == 0
    whole = model.read_bytes()
    for _ in range(2):
        model.unlink()
        assert ddol(*run, "--model", model, "-q", "--resume").exit_code == 0
        assert model.read_bytes() == whole
        max(folder.glob("*.safetensors"), key=lambda each: each.stat().st_mtime_ns).unlink()


def test_files_in_another_order_are_matched_when_a_run_is_resumed(ddol, tmp_path, text_of):
    paths = [tmp_path / f"{name}.libsvm" for name in ("bern", "lyon", "rome")]
    for k, path in enumerate(paths):
        path.write_text(text_of(n=100 + k, seed=k))
    kept = ("--checkpoint", tmp_path / "run", "--every", 100, "--json", "-", "--topology", "path")
    whole = figures(ddol("train", *paths, *kept))
    folder = tmp_path / "run"
    max(folder.glob("*.safetensors"), key=lambda each: each.stat().st_mtime_ns).unlink()
    done = ddol("train", *paths[::-1], *kept, "--resume")
    assert "the order of the run that is resumed" in done.stderr
    again = figures(done)
    assert again["sites"] == whole["sites"] == ["bern", "lyon", "rome"]
    assert again["mistakes"] == whole["mistakes"]
