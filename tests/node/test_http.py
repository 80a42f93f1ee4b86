"""The HTTP server: by its contract, and by its OpenAPI file."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from starlette.testclient import TestClient

import ddol
from ddol.node.config import HttpConfig
from ddol.node.exporting import model_bytes
from ddol.node.http import Served, application
from ddol.node.inference import response
from ddol.node.prediction import Prediction, no_chances

TOKEN = "a-token-of-many-letters"
DESCRIBED = json.loads(files("ddol.node").joinpath("openapi.json").read_text())


def make(**options):
    return ddol.Node("eu", ddol.adaptive("logistic"), **options)


def client(node=None, shares=None, **http):
    nodes = node if isinstance(node, dict) else {"default": node or make()}
    served = Served("eu", nodes, HttpConfig(**http), shares or {}, model_bytes)
    return TestClient(application(served), base_url="http://127.0.0.1:8001")


def tensor(name, *data, kind="FP64"):
    return {"name": name, "shape": [len(data)], "datatype": kind, "data": list(data)}


def infer(web, identifier=None, *inputs, model="default"):
    body = {"inputs": list(inputs)} | ({} if identifier is None else {"id": identifier})
    return web.post(f"/v2/models/{model}/infer", json=body)


def feedback(web, told, model="default"):
    return web.post(f"/v2/models/{model}/feedback", json=told)


def price(value=3.5, country="fr"):
    return tensor("price", value), tensor("country", country, kind="BYTES")


def test_a_prediction_and_its_label():
    web = client(make(classes=["no", "yes"]))
    told = infer(web, "r1", *price()).json()
    assert told["model_name"] == "default" and told["id"] == "r1"
    label, chances = told["outputs"]
    assert label == {"name": "label", "shape": [1], "datatype": "BYTES", "data": ["yes"]}
    assert chances == {
        "name": "probability", "shape": [1, 2], "datatype": "FP64", "data": [0.5, 0.5],
    }  # fmt: skip
    for _ in range(2):
        told = feedback(web, {"id": "r1", "label": "yes"})
    assert told.status_code == 200
    assert told.json() == {"accepted": 0, "duplicate": 1, "unknown": 0, "expired": 0}


def test_before_a_label_there_is_none():
    outputs = infer(client(), "r1", *price()).json()["outputs"]
    assert outputs[0]["data"] == [None] and outputs[1]["data"] == []


def test_several_examples_have_tickets_of_their_own():
    web = client()
    inputs = tensor("price", 1.0, 2.0, 3.0), tensor("country", "a", "b", "a", kind="BYTES")
    assert infer(web, "r", *inputs).json()["outputs"][0]["shape"] == [3]
    labels = [{"id": f"r/{k}", "label": k == 1} for k in range(4)]
    assert feedback(web, labels).json() == {
        "accepted": 3, "duplicate": 0, "unknown": 1, "expired": 0,
    }  # fmt: skip
    outputs = infer(web, None, *inputs).json()["outputs"]
    assert outputs[0]["datatype"] == "BOOL" and outputs[1]["shape"] == [3, 2]


def test_an_array_is_one_input_of_two_dimensions():
    web = client(make(classes=[0, 1]))
    array = {"name": "x", "shape": [2, 3], "datatype": "FP64", "data": [1, 2, 3, 4, 5, 6]}
    assert infer(web, "r", array).json()["outputs"][0]["shape"] == [2]
    assert (
        feedback(web, [{"id": "r/0", "label": 1}, {"id": "r/1", "label": 0}]).json()["accepted"]
        == 2
    )
    assert "expected an array" not in infer(web, "s", array | {"data": [[1, 2, 3], [4, 5, 6]]}).text


def test_metadata_tell_how_it_goes():
    web = client()
    infer(web, "r1", *price())
    feedback(web, {"id": "r1", "label": "yes"})
    told = web.get("/v2/models/default").json()
    assert (told["examples"], told["answers"], told["peers"]) == (1, 1, [])
    assert told["error_window"] == 1.0 and told["sites"]["name"] == "eu"


def test_metrics_are_in_the_format_of_prometheus():
    web = client()
    infer(web, "r1", *price())
    text = web.get("/metrics").text
    assert 'ddol_predictions_total{model="default"} 1' in text
    line = re.compile(r'(# (HELP|TYPE) \w+ .*|\w+(\{(\w+="[^"]*",?)*\})? [0-9.e+-]+)')
    assert all(line.fullmatch(each) for each in text.splitlines())


BAD = [
    ("infer", "{", 400, "cannot be read"),
    ("infer", "{}", 400, "missing required field `inputs`"),
    ("infer", json.dumps({"inputs": []}), 400, "found none"),
    ("infer", json.dumps({"inputs": [tensor("x", "a")]}), 400, "found 'a', expected FP64"),
    ("infer", '{"inputs":[{"name":"x","shape":[1],"datatype":"FP64","data":[1e999]}]}', 400, ""),
    ("infer", json.dumps({"inputs": [tensor("x", 1.0) | {"shape": [2]}]}), 400, "found shape [2]"),
    (
        "infer",
        json.dumps({"inputs": [tensor("x", 1.0) | {"shape": [1 << 62]}]}),
        400,
        "found shape",
    ),
    ("infer", json.dumps({"inputs": [tensor("x", 1.0, kind="FP1")]}), 400, "datatype 'FP1'"),
    ("infer", json.dumps({"inputs": [tensor("x", 1.5, kind="INT64")]}), 400, "expected INT64"),
    ("infer", json.dumps({"inputs": [tensor("x", -1, kind="UINT8")]}), 400, "expected UINT8"),
    ("infer", json.dumps({"inputs": [tensor("x", 7, kind="BOOL")]}), 400, "expected BOOL"),
    ("infer", json.dumps({"inputs": [tensor("x", True)]}), 400, "expected FP64"),
    ("infer", json.dumps({"inputs": [tensor("x")]}), 400, "expected 1 to 65,536 examples"),
    ("infer", json.dumps({"inputs": [tensor("x", 1.0), tensor("x", 2.0)]}), 400, "found 'x' twice"),
    ("infer", '{"a":' * 50_000, 400, "nested too deeply"),
    ("infer", json.dumps({"inputs": [tensor("x", 1.0)], "outputs": [{"name": "y"}]}), 400, "'y'"),
    ("infer", json.dumps({"id": "x" * 2000, "inputs": [tensor("x", 1.0)]}), 400, "2,000 letters"),
    ("feedback", json.dumps({"id": "a"}), 400, "missing required field `label`"),
    ("feedback", json.dumps({"id": "a", "label": None}), 400, "cannot be read"),
    ("feedback", json.dumps({"id": "a", "label": "maybe"}), 400, "expected one of no, yes"),
    ("feedback", "[" * 5000, 400, ""),
    ("infer", " " * 2000, 413, "more than 1,000 bytes"),
]


@pytest.mark.parametrize(("what", "body", "status", "sentence"), BAD)
def test_errors_are_json_with_one_sentence(what, body, status, sentence):
    web = client(make(classes=["no", "yes"]), most_body=1000 if status == 413 else 1 << 20)
    told = web.post(f"/v2/models/default/{what}", content=body)
    assert told.status_code == status and told.json().keys() == {"error"}
    assert sentence in told.json()["error"] and "\n" not in told.json()["error"]
    jsonschema.validate(told.json(), DESCRIBED["components"]["schemas"]["Error"])


def test_what_is_not_there_is_told():
    web = client()
    assert "expected default" in web.get("/v2/models/other").json()["error"]
    assert web.get("/nowhere").json()["error"].startswith("found no /nowhere")
    assert web.get("/v2/models/default/infer").status_code == 405
    assert web.get("/v2/models/default/").json()["error"].startswith("found no /v2/models/default/")


def test_a_token_is_asked_for(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    web = client(token_file=str(file))
    assert web.get("/v2/health/live").status_code == 200
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic !"}):
        told = web.get("/v2/models/default", headers=header)
        assert told.status_code == 401 and "expected Authorization" in told.json()["error"]
    assert web.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert web.get("/", auth=("me", TOKEN)).status_code == 200


def test_a_file_of_tokens_that_breaks_lets_no_client_in(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    web = client(token_file=str(file))
    file.write_text("")
    for token in (TOKEN, "other"):
        answer = web.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
    assert sum("no client is let in" in line for line in caplog.messages) in (1, 2)


def test_without_a_token_other_pages_and_hosts_are_refused():
    web = client()
    assert web.get("/v2", headers={"Host": "evil.example"}).status_code == 403
    assert web.get("/v2", headers={"Origin": "http://evil.example"}).status_code == 403
    assert web.get("/v2", headers={"Host": "localhost"}).status_code == 200


def test_requests_have_a_rate():
    web = client(rate=2.0)
    codes = [web.get("/v2").status_code for _ in range(4)]
    assert codes[:2] == [200, 200] and 429 in codes


def test_two_versions_have_shares_of_the_requests():
    nodes = {"default": make(), "next": make()}
    web = client(nodes, {"next": 0.25})
    models = [infer(web, f"r{k}", *price()).json()["model_name"] for k in range(400)]
    assert 60 < models.count("next") < 140
    told = feedback(web, [{"id": f"r{k}", "label": k % 2 == 0} for k in range(400)])
    assert told.json()["accepted"] == 400
    assert nodes["next"].state()["answers"] == models.count("next")
    assert infer(web, "x", *price(), model="next").json()["model_name"] == "next"


def test_a_label_finds_the_version_that_has_predicted():
    """Identifiers may hold slashes, as tickets of several examples do, and shares may change."""
    nodes = {"default": make(), "next": make()}
    web = client(nodes, {"next": 0.5})
    names = [f"user/{k}" for k in range(20)]
    models = {infer(web, name, *price()).json()["model_name"] for name in names}
    assert models == {"default", "next"}
    batch = infer(web, "a/b", tensor("price", 1.0, 2.0), tensor("country", "a", "b", kind="BYTES"))
    assert batch.status_code == 200
    web = client(nodes, {"next": 0.1})
    told = [{"id": name, "label": True} for name in [*names, "a/b/0", "a/b/1"]]
    assert feedback(web, told).json()["accepted"] == 22
    assert feedback(web, told).json()["duplicate"] == 22


def test_labels_are_checked_for_all_versions_before_any_is_learned():
    nodes = {"default": make(classes=["no", "yes"]), "next": make(classes=["no", "yes"])}
    web = client(nodes, {"next": 0.5})
    names = [f"r{k}" for k in range(20)]
    for name in names:
        infer(web, name, *price())
    told = [{"id": name, "label": "yes"} for name in names]
    assert feedback(web, [*told, {"id": "r3", "label": "maybe"}]).status_code == 400
    assert feedback(web, told).json()["accepted"] == 20


def test_a_request_is_predicted_whole_or_not_at_all():
    node = make()
    web = client(node)
    infer(web, "r", *price())
    inputs = tensor("price", 1.0, 1e308), tensor("other", 1.0, 1e308)
    assert infer(web, "s", *inputs).status_code == 400
    assert node.state()["waiting"] == 1


def test_only_the_outputs_asked_for_are_told():
    body = {"inputs": list(price()), "outputs": [{"name": "probability"}]}
    told = client().post("/v2/models/default/infer", json=body).json()["outputs"]
    assert [output["name"] for output in told] == ["probability"]


@pytest.mark.parametrize("binary", [False, True])
def test_a_client_of_the_protocol_is_understood(binary):
    triton = pytest.importorskip("tritonclient.http")
    number, text = (
        triton.InferInput("price", [2], "FP32"),
        triton.InferInput("country", [2], "BYTES"),
    )
    number.set_data_from_numpy(np.array([1.5, 4.0], np.float32), binary_data=binary)
    text.set_data_from_numpy(np.array(["fr", "dé"], object), binary_data=binary)
    body, length = triton.InferenceServerClient.generate_request_body(
        [number, text], request_id="r"
    )
    headers = {} if length is None else {"inference-header-content-length": str(length)}
    node = make(classes=["no", "yes"])
    with client(node) as web:
        told = web.post("/v2/models/default/infer", content=body, headers=headers)
    assert told.status_code == 200 and told.json()["outputs"][1]["shape"] == [2, 2]
    rows = [node.read(lambda agent, n=name: agent.room.pending[n].row) for name in ("r/0", "r/1")]
    assert [row.values.tolist() for row in rows] == [[1.0, 1.5, 1.0], [1.0, 4.0, 1.0]]
    names = node.read(lambda agent: agent.features.names)
    assert names == ["price", "country=fr", "country=dé"]


@pytest.mark.parametrize(
    ("size", "length", "tail", "sentence"),
    [
        (8, "999", b"12345678", "found a body of"),
        (8, "x", b"12345678", "found a body of"),
        (16, None, b"12345678", "found 16 for binary_data_size"),
        (-1, None, b"12345678", "found -1 for binary_data_size"),
        (8, None, b"12345678more", "found 4 bytes that belong to no input"),
        (7, None, b"1234567", "found bytes that are no FP64 values"),
        (8, None, np.array([np.nan]).tobytes(), "expected a finite number"),
    ],
)
def test_bad_binary_tensors_are_one_sentence(size, length, tail, sentence):
    parameters = {"binary_data_size": size}
    tensors = [{"name": "x", "shape": [1], "datatype": "FP64", "parameters": parameters}]
    text = json.dumps({"inputs": tensors}).encode()
    headers = {"inference-header-content-length": length or str(len(text))}
    with client() as web:
        told = web.post("/v2/models/default/infer", content=text + tail, headers=headers)
    assert told.status_code == 400 and sentence in told.json()["error"]


def test_the_site_has_the_keys_of_train():
    node = ddol.Node("eu", classes=["no", "yes"])
    web = client(node)
    for count in (0, 1):
        site = web.get("/v2/models/default").json()["sites"]
        keys = (
            "name examples error_alone error_shared error loss_alone loss_shared loss weight_shared bound "
            "helped"
        )
        assert set(keys.split()) <= site.keys() and site["examples"] == count
        infer(web, "r1", *price())
        feedback(web, {"id": "r1", "label": "yes"})


def test_the_metrics_are_read_by_prometheus():
    parser = pytest.importorskip("prometheus_client.parser")
    web = client()
    infer(web, "r1", *price())
    found = {m.name: m for m in parser.text_string_to_metric_families(web.get("/metrics").text)}
    assert found["ddol_predictions"].samples[0].value == 1.0
    assert found["ddol_infer_seconds"].type == "histogram"


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    node = make(store=tmp_path)
    web = client(node)
    infer(web, "r1", *price())
    monkeypatch.setattr("ddol.node.journal.os.write", lambda fd, text: 0)
    told = feedback(web, {"id": "r1", "label": True})
    assert told.status_code == 503 and "not learned" in told.json()["error"]
    assert infer(web, "r2", *price()).status_code == 200
    monkeypatch.undo()
    assert feedback(web, {"id": "r1", "label": True}).json()["accepted"] == 1
    node.close()


def test_a_label_is_on_the_disk_when_it_is_acknowledged(tmp_path):
    node = make(store=tmp_path, durability="batch:20ms")
    with client(node) as web:
        infer(web, "r1", *price())
        feedback(web, {"id": "r1", "label": True})
        assert node.journal.flushed == node.journal.written
    node.close()


def test_what_the_disk_loses_is_not_acknowledged(tmp_path, monkeypatch, caplog):
    node = make(store=tmp_path, durability="batch:20ms")

    def broken(file):
        raise OSError(5, "Input/output error")

    with client(node) as web:
        infer(web, "r1", *price())
        monkeypatch.setattr("ddol.node.journal.os.fdatasync", broken)
        for _ in range(2):
            told = feedback(web, {"id": "r1", "label": True})
        assert infer(web, "r2", *price()).status_code == 200
        told = feedback(web, {"id": "r2", "label": True})
        assert told.status_code == 503 and "Input/output error" in told.json()["error"]
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] != []
    monkeypatch.undo()
    node.close()


def test_the_model_of_now_predicts_as_the_node(tmp_path):
    node = make()
    for k in range(60):
        country = "fr" if k % 3 else "de"
        node.learn(
            {"country": country, "price": float(k % 7)}, "yes" if k % 3 and k % 7 > 2 else "no"
        )
    file = tmp_path / "model.ddol"
    file.write_bytes(client(node).get("/v2/models/default/model").content)
    model = ddol.load(file)
    assert list(model.classes) == ["no", "yes"]
    import pandas as pd

    frame = pd.DataFrame({"price": [1.0, 6.0, 6.0], "country": ["fr", "de", "fr"]})
    assert model.predict(frame).tolist() == [p.label for p in node.predict_many(frame)]
    assert model.agent_number(node.name) == 0


def test_a_node_without_labels_has_no_model():
    assert client().get("/v2/models/default/model").status_code == 400


def test_the_server_is_what_its_file_says():
    """Every path is described, and every answer fits its schema."""
    web = client(make(classes=["no", "yes"]))
    paths = {route.path: route.methods - {"HEAD"} for route in web.app.routes}
    told = {
        p: {m.upper() for m in each if m != "parameters"} for p, each in DESCRIBED["paths"].items()
    }
    assert paths == told
    infer(web, "r0", *price())
    bodies = {
        "/v2/models/{name}/infer": {"id": "r1", "inputs": list(price())},
        "/v2/models/{name}/feedback": {"id": "r0", "label": "yes"},
    }
    for path, each in DESCRIBED["paths"].items():
        for method in each.keys() - {"parameters"}:
            body = bodies.get(path)
            schema = each[method].get(
                "requestBody", {"content": {"application/json": {"schema": {}}}}
            )
            _fits(body, schema["content"]["application/json"]["schema"])
            answer = web.request(method, path.replace("{name}", "default"), json=body)
            [(kind, content)] = each[method]["responses"][str(answer.status_code)][
                "content"
            ].items()
            assert answer.headers["content-type"].startswith(kind), path
            if kind == "application/json":
                _fits(answer.json(), content["schema"])


def _fits(told, schema):
    jsonschema.validate(told, {**schema, "components": DESCRIBED["components"]})


def test_values_of_several_examples_may_come_in_lists():
    web = client(make(classes=["no", "yes"]))
    nested = {"name": "x", "shape": [2, 1], "datatype": "FP64", "data": [[1.0], [2.0]]}
    assert infer(web, "r", nested).json()["outputs"][0]["shape"] == [2]
    for wrong in ([[1.0], 2.0], [[1.0, 2.0], [3.0]], [[[1.0]], [[2.0]]]):
        told = infer(web, "r", nested | {"data": wrong})
        assert told.status_code == 400 and "input 'x'" in told.json()["error"]


def test_labels_of_several_types_are_told_as_text():
    found = [Prediction(None, label, [], no_chances) for label in ("yes", 1, None)]
    label = response("default", None, found)["outputs"][0]
    assert label["datatype"] == "BYTES" and label["data"] == ["yes", "1", None]


def test_a_slow_rate_lets_the_first_request_in():
    web = client(rate=0.5)
    assert [web.get("/v2").status_code for _ in range(2)] == [200, 429]


def test_a_body_that_is_no_text_is_a_bad_request():
    told = client().post("/v2/models/default/feedback", content=b'{"id": "\xa2", "label": 1}')
    assert told.status_code == 400 and "no UTF-8" in told.json()["error"]


def test_a_node_that_has_diverged_says_so():
    """A gradient step of a fixed size leaves all bounds where features are large: scores are none."""
    node = ddol.Node("eu", ddol.dogd("squared"))
    for _ in range(4):
        node.learn({"x": 1e100}, 1.0)
    told = infer(client(node), None, tensor("x", 1.0))
    assert told.status_code == 500 and "dogd has diverged" in told.json()["error"]
