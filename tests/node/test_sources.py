"""Examples and labels from topics."""

from __future__ import annotations

import json
import threading
import time

import ddol
from broker import mqtt_broker
from ddol.node.sources import LineTaker, begin_source


def test_a_line_that_comes_twice_is_learned_once(tmp_path):
    with ddol.Node("eu", store=tmp_path) as node:
        taker, flushed = LineTaker(node, print), threading.Event()
        for _ in range(2):
            taker.take('{"id": "e", "features": {"x": 1}, "label": "yes"}')
        assert node.state()["examples"] == 1
        taker.durable(flushed.set)
        assert flushed.wait(10.0) and node.journal.flushed == node.journal.written


def test_a_topic_is_learned_from_and_kept_while_the_node_is_away(tmp_path):
    from paho.mqtt import client

    with mqtt_broker() as address:
        told, heard = client.Client(client.CallbackAPIVersion.VERSION2), []
        came = threading.Event()

        def on_message(_, __, message):
            heard.append(json.loads(message.payload))
            came.set()

        told.on_message = on_message
        told.connect("127.0.0.1", int(address.rpartition(":")[2]))
        told.loop_start()
        told.subscribe("shop/events/predictions", qos=1)

        def say(**line):
            told.publish("shop/events", json.dumps(line), qos=1).wait_for_publish(10.0)

        def taken(node, n):
            deadline = time.monotonic() + 20.0
            while node.state()["examples"] < n and time.monotonic() < deadline:
                time.sleep(0.02)
            return node.state()["examples"] == n

        with ddol.Node("eu", store=tmp_path) as node:
            end = begin_source(f"{address}/shop/events", node, "default")
            while not node.state()["examples"]:  # until it has subscribed
                say(id="first", features={"x": 1}, label="yes")
            say(features={"x": 0}, label="no")
            told.publish("shop/events", b"rubbish", qos=1)
            say(id="r1", features={"x": 1})
            say(id="r1", label="yes")
            assert taken(node, 3)
            assert came.wait(10.0) and heard == [
                {"id": "r1", "label": "yes", "probability": heard[0]["probability"]}
            ]
            end()
        say(id="away", features={"x": 0}, label="no")
        with ddol.Node("eu", store=tmp_path) as node:
            end = begin_source(f"{address}/shop/events", node, "default")
            assert taken(node, 4) and node.status("away") == "answered"
            end()
        told.disconnect()
        told.loop_stop()
