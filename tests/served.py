"""Nodes as processes, for tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from typing import ClassVar


class Process:
    """A node that runs."""

    begun: ClassVar[list] = []

    @classmethod
    def end_all(cls):
        for child in cls.begun:
            if child.poll() is None:
                child.kill()
                child.wait()
        cls.begun.clear()

    def __init__(self, folder, text, *arguments, stdin=None):
        self.file = folder / "node.toml"
        self.file.write_text(text)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "ddol", "serve", str(self.file), *arguments],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.begun.append(self.child)
        self.said = []
        for line in self.child.stderr:
            self.said.append(line)
            found = re.search(r"serves at (http\S+)", line)
            if found:
                self.url = found[1]
                return
        raise AssertionError("".join(self.said))

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data, timeout=20) as answer:
            return json.load(answer)

    def teach(self, examples, model="default"):
        for k, (value, label) in enumerate(examples):
            name = f"{time.monotonic_ns()}-{k}"
            inputs = [{"name": "x", "shape": [1], "datatype": "FP64", "data": [value]}]
            self.ask(f"/v2/models/{model}/infer", {"id": name, "inputs": inputs})
            told = self.ask(f"/v2/models/{model}/feedback", {"id": name, "label": label})
            assert told["accepted"] == 1

    def labels(self, *values):
        told = {"name": "x", "shape": [len(values)], "datatype": "FP64", "data": list(values)}
        return self.ask("/v2/models/default/infer", {"inputs": [told]})["outputs"][0]["data"]

    def end(self, number=signal.SIGTERM):
        self.child.send_signal(number)
        _, rest = self.child.communicate(timeout=30)
        return self.child.returncode, "".join(self.said) + rest


def config(name="eu", network=""):
    return f'''name = "{name}"
store = "state"
classes = ["no", "yes"]
[model]
algorithm = "adaptive"
loss = "logistic"
[http]
listen = "127.0.0.1:0"
{network}'''
