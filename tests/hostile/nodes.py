"""Live nodes: damaged journals, settings and requests are refused in one line, or told and survived."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.hostile.mutations import damaged

import ddol
from ddol.node.config import HttpConfig, load_config
from ddol.node.http import Served, application
from ddol.node.records import framed, records

STRANGE = (
    None, True, -1, 0, 1, 2.5, 1e300, 10**30, "", "x", "1s", "\u00e9", "127.0.0.1:0", [], [1], ["a", "b"], {},
    {"a": 1}, [[1.0]], "a/b", -0.0,
)  # fmt: skip
SETTINGS = """name = "eu"
classes = ["no", "yes"]
waiting = 1000
expire = "30m"
durability = "batch:5ms"
window = 100
logs = "json"
keep_all = true
labels = { ja = "yes" }
hash_bits = 10
[models.a]
algorithm = "adaptive"
loss = "logistic"
safe = true
sources = ["mqtt://127.0.0.1:1883/shop"]
[models.b]
algorithm = "dogd"
share = 0.25
[http]
listen = "127.0.0.1:8001"
most_body = 100000
rate = 10.5
connections = 10
[network]
listen = ["tcp/127.0.0.1:7001"]
connect = ["tcp/127.0.0.1:7002"]
exchange = "1s"
peers = ["us", "ap"]
least = 5
transport = "zenoh"
compress = "float32"
"""
BODIES = (
    {"id": "r", "inputs": [
        {"name": "x", "shape": [1], "datatype": "FP64", "data": [3.5]},
        {"name": "c", "shape": [1], "datatype": "BYTES", "data": ["fr"]}]},
    {"id": "s", "outputs": [{"name": "label"}], "inputs": [
        {"name": "x", "shape": [3], "datatype": "INT32", "data": [1, 2, 3]},
        {"name": "b", "shape": [3], "datatype": "BOOL", "data": [True, False, True]}]},
)  # fmt: skip
LABELS = ({"id": "r", "label": "yes"}, [{"id": "r", "label": "no"}, {"id": "s/0", "label": "yes"}])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Thousands of warnings are expected here."""
    logger = logging.getLogger("ddol.node")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _complaint(error: Exception) -> str:
    """What is wrong with an error, if anything."""
    if not isinstance(error, ValueError) or type(error).__module__ == "builtins":
        return f"{type(error).__name__}: {error}"
    return "an error of several lines" if "\n" in str(error) else ""


# --- journals ---------------------------------------------------------------------------------------


def _node(store: Path | None = None, name: str = "eu") -> ddol.Node:
    return ddol.Node(name, ddol.adaptive("logistic"), store=store, classes=["no", "yes"])


@functools.cache
def _journal() -> tuple[Path, bytes, int]:
    """A store without a snapshot, its journal, and how many examples it has learned."""
    folder, other = Path(tempfile.mkdtemp()), _node(name="us")
    node = _node(folder)
    for k in range(30):
        other.learn({"x": float(k), "d": 1.0}, ["no", "yes"][k % 2])
        node.predict({"x": float(k), "c": f"v{k % 5}"}, id=f"r{k}")
        if k % 3:
            node.answer(f"r{k}", ["no", "yes"][k % 2])
    node.tell_network(2)
    node.receive(other.message())
    node.message()
    node.learn({"x": 1.0}, "yes")
    node.journal.close()
    return folder, (folder / "journal-00000000.log").read_bytes(), node.state()["examples"]


def _rewritten(log: bytes, number: int) -> bytes:
    """A journal with damage inside of a record, and a checksum that goes with it."""
    found, rng = list(records(log)), np.random.default_rng(number)
    at = int(rng.integers(len(found)))
    kind, body = found[at]
    if body:
        _, body = damaged(body, number)
    parts = [framed(kind, body) if k == at else framed(*each) for k, each in enumerate(found)]
    return b"".join(parts)


def _opened(folder: Path, whole: int | None) -> str:
    """What is wrong with how a store is opened; all is there, or what is missing was told."""
    try:
        node = _node(folder)
    except Exception as error:
        return _complaint(error)
    examples = node.state()["examples"]
    told = "torn" in "".join(node.news) or "damaged" in "".join(node.news) or not node.news
    if whole is not None and examples < whole and not told:
        return f"{whole - examples} examples are lost in silence"
    with node:
        node.predict({"x": 1.0}, id="new")
        node.answer("new", "yes")
        examples = node.state()["examples"]
    with _node(folder) as again:
        return "" if again.state()["examples"] == examples else "it does not come back as it was"


@_quiet()
def mutated_journals(first: int, tries: int) -> dict[str, str]:
    """Journals with random damage, and with damage that their checksums hide."""
    wrong, (folder, log, whole) = {}, _journal()
    for number in range(first, first + tries):
        print("at", number, flush=True)
        with tempfile.TemporaryDirectory() as place, np.errstate(all="ignore"):
            shutil.copy(folder / "node.json", place)
            crafted = number % 2 == 1
            data = _rewritten(log, number) if crafted else damaged(log, number)[1]
            (Path(place) / "journal-00000000.log").write_bytes(data)
            said = _opened(Path(place), None if crafted else whole)
        if said:
            wrong[str(number)] = said
    return wrong


# --- settings ---------------------------------------------------------------------------------------


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + "}"
    return '"nothing"' if value is None else json.dumps(value, ensure_ascii=False)


def _other_value(number: int) -> bytes:
    """The settings with another value at one place."""
    rng, lines = np.random.default_rng(number), SETTINGS.splitlines()
    at = int(rng.choice([k for k, line in enumerate(lines) if "=" in line]))
    value = _toml(STRANGE[int(rng.integers(len(STRANGE)))])
    lines[at] = f"{lines[at].partition('=')[0]}= {value}"
    return "\n".join(lines).encode()


@_quiet()
def mutated_node_files(first: int, tries: int) -> dict[str, str]:
    """Files of settings, damaged, or with a strange value."""
    wrong = {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "node.toml")
        for number in range(first, first + tries):
            crafted = number % 2 == 1
            path.write_bytes(
                _other_value(number) if crafted else damaged(SETTINGS.encode(), number)[1]
            )
            try:
                config = load_config(path)
                for model in config.models.values():
                    ddol.Node(config.name, model.algorithm, **vars(model.options) | {"store": None})
            except Exception as error:
                if said := _complaint(error):
                    wrong[str(number)] = said
    return wrong


# --- requests ---------------------------------------------------------------------------------------


def _changed(told: Any, rng: np.random.Generator) -> Any:
    """A value with another one at a random place inside."""
    if not isinstance(told, dict | list) or not told or rng.random() < 0.15:
        return STRANGE[int(rng.integers(len(STRANGE)))]
    keys = list(told) if isinstance(told, dict) else range(len(told))
    key = keys[int(rng.integers(len(keys)))]
    found = told.copy()
    found[key] = _changed(told[key], rng)
    return found


@_quiet()
def mutated_requests(first: int, tries: int) -> dict[str, str]:
    """Requests and labels, damaged: one sentence and 400, or an answer; what is accepted is learned once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    node = ddol.Node("eu", ddol.adaptive("logistic"))
    served = Served("eu", {"default": node}, HttpConfig())
    web = TestClient(
        application(served), base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    wrong, accepted = {}, 0
    for number in range(first, first + tries):
        rng = np.random.default_rng(number)
        for where, told in (("infer", BODIES[number % 2]), ("feedback", LABELS[number // 2 % 2])):
            body = json.dumps(told).encode()
            accepted += (
                web.post(f"/v2/models/default/{where}", content=body).json().get("accepted", 0)
            )
            changed = json.dumps(_changed(told, rng)).encode()
            body = changed if number % 3 else damaged(body, number)[1]
            headers = (
                {"inference-header-content-length": str(number % 200)} if number % 7 == 0 else {}
            )
            reply = web.post(f"/v2/models/default/{where}", content=body, headers=headers)
            if reply.status_code == 200:
                accepted += reply.json().get("accepted", 0)
            if reply.status_code not in (200, 400):
                wrong[str(number)] = f"{reply.status_code} for {body!r:.150}: {reply.text:.150}"
            elif reply.status_code == 400 and "\n" in reply.json()["error"]:
                wrong[str(number)] = "an error of several lines"
    state = node.state()
    if state["answers"] != accepted or state["examples"] != accepted:
        wrong["the end"] = f"{accepted} labels were accepted, {state['examples']} learned"
    if web.get("/v2/models/default").status_code != 200 or not np.isfinite(node.weights()).all():
        wrong["the end"] = "the node does not go on"
    return wrong
