"""Checkpoints, models and whatever else a run leaves, at addresses in stores."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ddol import folders
from ddol.checkpoint import saved_in
from ddol.folders import folder_at
from ddol.streams.errors import DataError

fsspec = pytest.importorskip("fsspec")
RUN = ("--agents", 2, "--period", 4, "--quiet")


@pytest.fixture
def store(monkeypatch):
    """A store in memory, whose holders show that they live ten times a second."""
    monkeypatch.setattr(folders, "_RENEWED", 0.05)
    monkeypatch.setattr(folders, "_EXPIRED", 0.3)
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


@pytest.mark.parametrize("where", ["memory://runs", "file://{tmp}"])
def test_a_model_is_written_and_used_where_the_address_says(ddol, examples, store, tmp_path, where):
    model = where.format(tmp=tmp_path) + "/m.ddol"
    done = ddol("train", examples, *RUN, "--model", model, "--report", "memory://runs/r.html")
    assert done.exit_code == 0, done.stderr
    assert store.cat("/runs/r.html").startswith(b"<!doctype html>")
    here = tmp_path / "here.ddol"
    assert ddol("train", examples, *RUN, "--model", here).exit_code == 0
    assert ddol("predict", model, examples).stdout == ddol("predict", here, examples).stdout
    out = "memory://runs/out.txt"
    assert ddol("predict", model, examples, "--out", out).exit_code == 0
    assert store.cat("/runs/out.txt").decode() == ddol("predict", here, examples).stdout
    figures = [ddol("evaluate", m, examples, "--json", "-").stdout for m in (model, here)]
    assert figures[0] == figures[1]
    assert f"{model} (" in ddol("inspect", model).stdout
    assert ddol("train", examples, *RUN, "--initial", model).exit_code == 0


def test_a_model_is_read_over_http(ddol, examples, tmp_path):
    pytest.importorskip("aiohttp")
    ddol("train", examples, *RUN, "--model", tmp_path / "m.ddol")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        found = ddol("predict", f"{address}/m.ddol", examples)
        missing = ddol("inspect", f"{address}/none.ddol")
        server.shutdown()
    assert found.stdout == ddol("predict", tmp_path / "m.ddol", examples).stdout
    assert missing.exit_code == 2 and missing.stderr.count("\n") == 1


def checkpoints(files):
    return sorted(name for name in files.ls("/run", detail=False) if "checkpoint-" in name)


def test_a_run_goes_on_from_a_store_with_another_engine(ddol, examples, store, tmp_path):
    kept = ("--checkpoint", "memory://run", "--every", 50)
    whole = ddol("train", examples, *RUN, *kept, "--json", "-")
    assert whole.exit_code == 0, whole.stderr
    older, newest = saved_in("memory://run")
    assert checkpoints(store) == [name.removeprefix("memory:/") for _, name in (older, newest)]
    store.pipe(newest[1], store.cat(newest[1])[:-5])
    again = ddol("train", examples, *RUN, *kept, "--resume", "--engine", "threads", "--json", "-")
    assert again.exit_code == 0, again.stderr
    assert "trying the one before" in again.stderr
    first, second = json.loads(whole.stdout), json.loads(again.stdout)
    assert first["mistakes"] == second["mistakes"]
    assert first["final_weights_norm"] == pytest.approx(second["final_weights_norm"], rel=1e-12)
    anew = ddol("train", examples, *RUN, *kept)
    assert "2 checkpoints of an earlier run are renamed" in anew.stderr
    assert not store.exists("/run/.lock")


def test_other_data_at_the_same_address_are_noticed(ddol, text_of, store):
    kept = ("--checkpoint", "memory://run", "--every", 50)
    store.pipe("/data/a.libsvm", text_of().encode())
    assert ddol("train", "memory://data/a.libsvm", *RUN, *kept).exit_code == 0
    store.pipe("/data/a.libsvm", text_of(seed=1).encode())
    other = ddol("train", "memory://data/a.libsvm", *RUN, *kept, "--resume")
    assert other.exit_code == 2 and "of another run: the data was" in other.stderr


def test_who_lives_keeps_a_folder_and_who_is_gone_loses_it(store, monkeypatch):
    with (
        folder_at("memory://run").locked(),
        pytest.raises(DataError, match=r"process \d+ on .* is writing its checkpoints there"),
        folder_at("memory://run").locked(),
    ):
        pass
    for gone in ("process 1 on elsewhere\nabcd 7", "process 99999999 on {here}\nabcd 7"):
        monkeypatch.setattr(folders.platform, "node", lambda: "here")
        store.pipe("/run/.lock", gone.format(here="here").encode())
        with folder_at("memory://run").locked():
            assert b"abcd" not in store.cat("/run/.lock")


class DeafFiles(fsspec.AbstractFileSystem):
    """A store to which nobody may write, and whose errors have several lines."""

    protocol = "deaf"

    def pipe_file(self, path, value, **options):
        raise RuntimeError("Unable to locate credentials\nmore about it")


def test_a_store_that_takes_nothing_is_refused_before_the_run(ddol, examples):
    fsspec.register_implementation("deaf", DeafFiles, clobber=True)
    for option, place in (("--model", "deaf://b/m"), ("--checkpoint", "deaf://b/run")):
        done = ddol("train", examples, *RUN, option, place)
        assert done.exit_code == 2
        assert done.stderr.count("\n") == 1
        assert "cannot be written (Unable to locate credentials); check address" in done.stderr


def test_a_store_without_its_package_is_named_with_what_to_install(ddol, examples):
    done = ddol("train", examples, *RUN, "--model", "gs://bucket/m.ddol")
    if "gcsfs" not in done.stderr:
        pytest.skip("gcsfs is installed")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    unknown = ddol("predict", "nowhere://bucket/m.ddol", examples)
    assert unknown.exit_code == 2 and "Protocol not known: nowhere" in unknown.stderr
