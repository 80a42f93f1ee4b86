"""Stores over the network, all on this machine: a web server, and one that speaks S3."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import polars as pl
import pytest
from tests.ray_streams import or_skipped, small_cluster

from ddol.streams.store import remote

fsspec = pytest.importorskip("fsspec")
asyn = pytest.importorskip("fsspec.asyn")
RUN = ("--agents", 2, "--period", 4, "--quiet", "--json", "-")
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@contextmanager
def serving(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def frame(seed, rows=400):
    X = np.random.default_rng(seed).standard_normal((rows, 3))
    columns = {f"f{j}": X[:, j] for j in range(3)}
    return pl.DataFrame({"y": (X.sum(axis=1) > 0).astype(int), **columns})


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.npy", "a.npz", "a.parquet"])
def test_a_web_server_that_knows_no_ranges(ddol, tmp_path, name):
    pytest.importorskip("aiohttp")
    given = frame(0, 3000)
    given.write_csv(tmp_path / "a.csv")
    with fsspec.open(f"{tmp_path}/a.csv.gz", "wb", compression="gzip") as file:
        file.write((tmp_path / "a.csv").read_bytes())
    table = given.to_numpy()
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "a.npz", X=table[:, 1:], y=table[:, 0])
    given.write_parquet(tmp_path / "a.parquet", row_group_size=500)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with serving(partial(quiet, directory=tmp_path)) as address:
        found = ddol("train", f"{address}/{name}", *RUN)
    assert found.exit_code == 0, found.stderr
    here = ddol("train", tmp_path / name, *RUN)
    assert json.loads(found.stdout)["mistakes"] == json.loads(here.stdout)["mistakes"]


def refusing(code, said):
    """A server that says the same to everything."""

    def refuse(self):
        self.send_response(code)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    asked = dict.fromkeys(("do_GET", "do_HEAD", "do_PUT"), refuse)
    return type("Refusing", (BaseHTTPRequestHandler,), {**asked, "log_message": lambda *_: None})


def test_a_web_server_that_refuses_or_is_not_there(ddol):
    pytest.importorskip("aiohttp")
    with serving(refusing(403, b"")) as address:
        refused = ddol("train", f"{address}/a.csv", *RUN)
    gone = ddol("train", f"{address}/a.csv", *RUN)
    for done, said in ((refused, "(403, message='Forbidden'"), (gone, "(Cannot connect to host")):
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert f"{address}/a.csv: cannot be read {said}" in done.stderr


class Silent(asyn.AsyncFileSystem):
    """A store that never answers."""

    protocol = "silent"

    async def _info(self, path, **options):
        await asyncio.Event().wait()


def test_a_store_that_never_answers_is_given_up(ddol, examples, monkeypatch):
    fsspec.register_implementation("silent", Silent, clobber=True)
    monkeypatch.setattr(remote, "ANSWER", 0.01)
    for asked in (
        ("silent://b/a.csv",),
        ("silent://b/site=*/",),
        (examples, "--model", "silent://b/m"),
    ):
        done = ddol("train", *asked, *RUN)
        assert done.exit_code == 2
        assert "silent://b has not answered for 0 s; check the address" in done.stderr


@pytest.fixture(scope="module")
def moto():
    """The address of a server that speaks S3, with two sites of two files each in a bucket."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(moto, monkeypatch):
    """The store, reached as the environment says."""
    monkeypatch.setattr(remote, "_met", set())
    for name, value in zip(KEYS, ("me", "secret"), strict=True):
        monkeypatch.setenv(name, value)
    for name, value in {"ENDPOINT_URL": moto, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    files_class = fsspec.get_filesystem_class("s3")
    files_class.clear_instance_cache()
    files = fsspec.filesystem("s3")
    files.makedirs("bucket", exist_ok=True)
    for site in range(2):
        for part in range(2):
            with files.open(f"bucket/events/site={site}/{part}.parquet", "wb") as file:
                frame(2 * site + part).write_parquet(file, row_group_size=100)
    yield files
    files.rm("bucket", recursive=True)
    files_class.clear_instance_cache()


EVENTS = "s3://bucket/events/site=*/"


def test_a_run_on_actors_from_a_store_goes_on_elsewhere(ddol, s3):
    pytest.importorskip("ray")
    kept = ("--checkpoint", "s3://bucket/run", "--every", 100)
    alone = ddol("train", EVENTS, *RUN)
    assert alone.exit_code == 0, alone.stderr
    spread = (*kept, "--model", "s3://bucket/m.ddol", "--engine", "ray")
    with or_skipped(small_cluster()):
        whole = ddol("train", EVENTS, *RUN, *spread, "--workers", 2)
        assert whole.exit_code == 0, whole.stderr
        s3.rm(max(s3.ls("bucket/run", detail=False)))
        fewer = ddol("train", EVENTS, *RUN, *spread, "--workers", 1, "--resume")
        assert fewer.exit_code == 0, fewer.stderr
    s3.invalidate_cache()
    s3.rm(max(s3.ls("bucket/run", detail=False)))
    here = ddol("train", EVENTS, *RUN, *kept, "--resume")
    found = [json.loads(done.stdout)["mistakes"] for done in (alone, whole, fewer, here)]
    assert found == found[:1] * 4
    told = ddol("evaluate", "s3://bucket/m.ddol", "s3://bucket/events/site=1/1.parquet")
    assert told.exit_code == 0 and "accuracy" in told.stdout
    said = ddol("predict", "s3://bucket/m.ddol", EVENTS, "--out", "s3://bucket/said.txt")
    assert said.exit_code == 0, said.stderr
    assert len(s3.cat("bucket/said.txt").splitlines()) == 1600


def test_settings_of_fsspec_are_those_of_tables_too(ddol, s3, moto, monkeypatch):
    alone = ddol("train", EVENTS, *RUN)
    for name in (*KEYS, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setitem(
        fsspec.config.conf, "s3", {"endpoint_url": moto, "key": "me", "secret": "secret"}
    )
    type(s3).clear_instance_cache()
    found = ddol("train", EVENTS, *RUN)
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["mistakes"] == json.loads(alone.stdout)["mistakes"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("s3://other/a.csv",), "s3://other/a.csv: nothing is there"),
        (("s3://other/site=*/",), "s3://other/site=*/: nothing is there"),
        (("s3://bucket/none.csv",), "s3://bucket/none.csv: nothing is there"),
        ((EVENTS, "--model", "s3://other/m.ddol"), "s3://other/m.ddol: nothing is there"),
        ((EVENTS, "--checkpoint", "s3://other/run"), "nothing is there"),
    ],
)
def test_what_is_not_in_the_store_is_named(ddol, s3, asked, said):
    done = ddol("train", *asked, *RUN)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    "asked", [("s3://bucket/a.csv",), (EVENTS,), (EVENTS, "--model", "s3://bucket/m")]
)
def test_who_may_not_is_told_so(ddol, s3, monkeypatch, asked):
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    type(s3).clear_instance_cache()
    unknown = ddol("train", *asked, *RUN)
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
    assert "(Unable to locate credentials); check address and login" in unknown.stderr
    for name in KEYS:
        monkeypatch.setenv(name, "wrong")
    said = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    with serving(refusing(403, said)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        type(s3).clear_instance_cache()
        refused = ddol("train", *asked, *RUN)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert ", no permission (" in refused.stderr
