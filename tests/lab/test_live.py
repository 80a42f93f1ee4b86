"""The page of a run that goes on: its numbers, who may read it, and that nothing in it is believed."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import threading
import urllib.request
from dataclasses import replace

import numpy as np
import pytest

import ddol
import ddol.streams
from ddol.engines.feed import Feed
from ddol.engines.news import tell
from ddol.engines.progress import Progress
from ddol.engines.setup import Setup
from ddol.job.tally import Tally
from ddol.lab.live.page import parts
from ddol.lab.live.server import LiveServer, metrics, served
from ddol.lab.live.watched import WatchedRun
from ddol.lab.network import AgentMarks, draw_network
from ddol.measure.chart import number
from ddol.recording import Moment
from ddol.streams.rows import Block, Rows
from patience import LONG, wait_until

RNG = np.random.default_rng(0)
X = RNG.standard_normal((900, 3))
Y = np.sign(X @ [1.0, -2.0, 0.5] + 0.3 * RNG.standard_normal(900))
EVIL = "<script>alert(1)</script>\"'&\n.csv"


def watched_run(network=3, **options):
    algorithm = ddol.dogd().on(network)
    watched = WatchedRun(algorithm, 3, **options)
    return watched, ddol.run(algorithm, (X, Y), on_progress=watched)


@pytest.fixture
def server():
    watched, _ = watched_run(data=EVIL)
    watched.note(f"read {EVIL}")
    with LiveServer(watched) as served:
        yield served


def ask(server, path="/", token=True, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LONG)
    query = f"?token={server.token}" if token else ""
    connection.putrequest(method, path + query, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer


def test_the_page_shows_the_numbers_of_the_run():
    watched, trace = watched_run()
    found = parts(watched)
    assert f"{trace.examples:,}" in found["title"]
    assert f"{100 * trace.error:.2f} %" in found["charts"]
    assert f"{100 * watched.last.window_error:.2f} %" in found["facts"]
    assert f"of the last {watched.last.window:,} examples" in found["facts"]
    assert "Wrong predictions so far" in found["charts"]
    assert "The regret theorem applies" in found["bound"]
    assert found["behind"] == ""


def test_bounds_and_certificates_are_shown():
    algorithm = ddol.dwm_i().on(3)
    watched = WatchedRun(algorithm, 3)
    trace = ddol.run(algorithm, (np.sign(X), Y), on_progress=watched)
    assert f"{trace.bounds['DWM-I']['value']:,.1f} allowed" in parts(watched)["bound"]
    algorithm = ddol.dogd(radius=2.0).on(ddol.ring(4))
    watched = WatchedRun(algorithm, 3)
    ddol.run(algorithm, (X, Y), on_progress=watched)
    assert (
        "No bound applies: the mixing is not that of the complete graph" in parts(watched)["bound"]
    )
    watched = WatchedRun(algorithm, 3)
    trace = ddol.run(algorithm, (X, Y), schedule="async", on_progress=watched)
    assert f"{number(trace.certificate.total)}, of which" in parts(watched)["bound"]
    assert "Regret certificate" in parts(watched)["curves"]


def test_a_page_that_comes_late_shows_the_beginning():
    watched, trace = watched_run()
    curves = watched.trace().curves
    assert curves.rounds[0] == 1
    assert curves.rounds[-1] == trace.rounds
    assert curves.mistakes[-1] == trace.mistakes.sum()
    assert curves.loss[-1] == pytest.approx(trace.loss.sum())


def test_memory_is_bounded():
    watched = WatchedRun(ddol.dogd().on(2))
    ones = np.ones(2)
    for k in range(5000):
        watched(Progress(k + 1, 2 * k, ones, ones * k, ones, ones * k, 0.1, 0.0, k, k, 1.0, None))
    for k in range(1000):
        watched.note(str(k))
    curves = watched.trace().curves
    assert 100 < len(curves.rounds) <= 257
    assert curves.rounds[-1] == 5000
    assert np.all(np.diff(curves.rounds) > 0)
    assert len(watched.notes()) == 200
    assert watched.notes()[0][1] == "999"


def test_who_is_behind_is_named_and_ringed():
    sizes = 300, 150, 100
    streams = [ddol.streams.array_stream(X[:n], Y[:n]) for n in sizes]
    algorithm = ddol.dogd().on(ddol.ring(3))
    watched = WatchedRun(algorithm, 3)
    ddol.run(algorithm, streams, on_progress=watched)
    found = parts(watched)
    assert cells_of(found["behind"]) == ["2", "100", "33%"]
    assert found["network"].count('class="behind"') == 2
    assert "ringed: behind" in found["network"]


def test_sites_are_called_by_their_names():
    sizes = 300, 150, 100
    streams = [ddol.streams.array_stream(X[:n], Y[:n]) for n in sizes]
    algorithm = ddol.dogd().on(ddol.ring(3))
    watched = WatchedRun(algorithm, 3, sites=("bern", "rome", "<b>oslo"))
    ddol.run(algorithm, streams, on_progress=watched)
    found = parts(watched)
    assert ">bern</th>" in found["sites"] and "&lt;b&gt;oslo" in found["sites"]
    assert cells_of(found["behind"]) == ["&lt;b&gt;oslo", "100", "33%"]
    assert "<b>oslo" not in found["behind"] + found["sites"]


def cells_of(html):
    """The first row of a table."""
    row = html.partition("<tbody><tr>")[2].partition("</tr>")[0]
    return re.findall(r">([^<]+)</t[hd]>", row)


def test_guessing_is_shown_beside_the_error():
    watched, trace = watched_run()
    assert "always the same class" not in parts(watched)["facts"]
    watched.tally = Tally(trace.agents, ("no", "yes"))
    table = np.arange(trace.examples).reshape(-1, trace.agents, 1)
    watched.tally(Block(Rows.from_dense(X, Y), table))
    constant = min((Y < 0).mean(), (Y > 0).mean())
    facts = parts(watched)["facts"]
    assert f"{100 * constant:.2f} %</b><span>wrong if always the same class" in facts


def test_who_goes_and_comes_back_is_written_down():
    watched = WatchedRun(ddol.dogd().on(ddol.ring(4)))
    ones = np.ones(4)
    for away in ([], [1, 2], [2], []):
        absent = np.isin(np.arange(4), away)
        moment = Moment(1, 1.0, 4, 0, 0.0, absent=absent)
        watched(Progress(1, 4, ones, ones, ones, ones, 0.1, 0.0, 4, 4, 1.0, None, (moment,)))
        assert ("Away now" in parts(watched)["behind"]) == bool(away)
    told = [text for _, text in watched.notes()]
    assert told == ["agents back: 2", "agents back: 1", "agents away: 1, 2"]


def test_what_happens_to_processes_is_written_down(capsys):
    algorithm = ddol.dogd().on(2)
    feed = Feed([ddol.streams.array_stream(X, Y)], 1)
    with served(algorithm, feed, Setup()) as watched:
        tell("actor 1 (agents 2–3) was lost; Ray starts another one")
        assert "actor 1 (agents 2–3) was lost" in parts(watched)["log"]
    tell("nobody listens")
    assert watched.notes()[0][1] == "the run has ended"
    assert "ddol: nobody listens" in capsys.readouterr().err


def test_many_agents_are_a_matrix():
    watched, _ = watched_run(300)
    found = parts(watched)
    network = found["network"]
    assert "The band spans the best and the worst agent." in found["charts"]
    assert "All agents have the same weights after every round" in found["curves"]
    assert "<circle" not in network
    assert network.count('width="1"') == network.count("hsl(") == 64  # the diagonal, by error
    assert network.count('width="64"') == 64  # everybody talks to everybody


def test_edges_are_as_wide_as_their_messages():
    edges = np.array([[0, 1, 20, 160], [1, 0, 10, 80], [1, 2, 10, 80]])
    drawing = draw_network(ddol.path(3), "", AgentMarks(edges=edges))
    first, second = map(float, re.findall(r"stroke-width:([0-9.]+)", drawing))
    assert first > second
    assert "stroke-width" not in draw_network(ddol.path(3), "", AgentMarks(edges=edges[1:]))


def test_hostile_names_are_escaped(server):
    status, body, _ = ask(server)
    assert status == 200
    assert "<script>alert" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    for html in parts(server.watched).values():
        assert "<script" not in html
    told = metrics(server.watched).splitlines()[2]
    assert told.startswith('ddol_run_info{algorithm="dogd",data="<script>alert(1)</script>\\"')
    assert "\\n.csv" in told


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"token": False}, 403),
        ({"path": "/metrics", "token": False}, 403),
        ({"path": "/events", "token": False}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": "localhost:9999"}, 200),
        ({"Host": "[::1]:9999"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"method": "POST"}, 405),
        ({"method": "HEAD"}, 405),
        ({"method": "OPTIONS"}, 405),
        ({"path": "/etc/passwd"}, 404),
        ({"path": "/../../etc/passwd"}, 404),
        ({}, 200),
    ],
)
def test_who_may_read(server, request_, status):
    found, _, answer = ask(server, **request_)
    assert found == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_wrong_token_is_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/?token=" + "x" * 22)
    assert connection.getresponse().status == 403


def test_scripts_run_by_their_nonce_only(server):
    _, body, answer = ask(server)
    policy = answer.headers["Content-Security-Policy"]
    nonce = re.search(r"'nonce-([^']+)'", policy)[1]
    assert re.findall(r"<script[^>]*>", body) == [f'<script nonce="{nonce}">']
    assert "default-src 'none'" in policy
    assert nonce not in ask(server)[1]


def test_figures_for_prometheus(server):
    bearer = f"Bearer {server.token}"
    status, body, answer = ask(server, "/metrics", token=False, Authorization=bearer)
    assert status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert f"ddol_rounds_total {server.watched.last.rounds}" in body
    for line in body.splitlines():
        assert re.match(r"# (HELP|TYPE) ddol_\w+ .+$|ddol_\w+(\{.*\})? [-+.\de]+$", line), line
    mistakes = re.findall(r'ddol_mistakes_total\{agent="\d"\} (\d+)', body)
    assert list(map(int, mistakes)) == server.watched.last.mistakes.tolist()


def test_news_comes_until_the_end():
    watched = WatchedRun(ddol.dogd().on(2), 3)
    heard: list[str] = []
    with LiveServer(watched) as server:
        address = server.address.replace("/?", "/events?")

        def listen():
            with urllib.request.urlopen(address, timeout=LONG) as news:
                heard.extend(line.decode().strip() for line in news)

        listener = threading.Thread(target=listen)
        listener.start()
        assert wait_until(lambda: heard)
        ddol.run(watched.algorithm, (X, Y), on_progress=watched)
    listener.join(LONG)
    assert not listener.is_alive()
    news = [json.loads(line[6:]) for line in heard if line.startswith("data: ")]
    assert "Nothing has been learned yet" in news[0]["title"]
    assert any("900" in piece.get("facts", "") for piece in news)
    assert "event: end" in heard


def test_run_serves_itself(capsys):
    seen = []

    def look(progress):
        if not seen:
            address = re.search(r"http://\S+", capsys.readouterr().err)[0]
            seen.append(urllib.request.urlopen(address).read().decode())

    ddol.run(ddol.dogd(), (X, Y), 3, live=True, on_progress=look)
    assert "dogd, 3 agents, complete" in seen[0]


def test_the_share_that_is_read():
    stream = ddol.streams.array_stream(X, Y)
    algorithm = ddol.dogd().on(2)
    watched = WatchedRun(algorithm, 3, feed=Feed([stream], 2))
    ddol.run(algorithm, stream, passes=2, on_progress=watched)
    assert watched.share == 1.0
    assert 'aria-valuenow="100.0"' in parts(watched)["bar"]


def test_the_share_is_known_within_a_block():
    shares = []
    watched = WatchedRun(ddol.dogd().on(2), 3, feed=Feed([ddol.streams.array_stream(X, Y)], 1))

    def look(progress):
        watched(replace(progress, position=None))
        shares.append((watched.share, progress.examples))

    ddol.run(watched.algorithm, (X, Y), on_progress=look)
    assert [share for share, _ in shares] == [examples / 900 for _, examples in shares]
    assert 0.0 < shares[0][0] < shares[-1][0] == 1.0


def test_a_port_that_is_taken_is_said(server):
    with pytest.raises(OSError, match=f"port {server.port} cannot be used"):
        LiveServer(server.watched, server.port)


@pytest.mark.parametrize("options", [(), ("--force-dark-mode",), ("--window-size=400,900",)])
def test_a_browser_shows_it(server, options, tmp_path):
    names = ("chromium", "chromium-browser", "chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("no Chromium is installed; install the package chromium to run this test")
    server.watched.end()
    how = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", *options]
    where = [
        f"--user-data-dir={tmp_path}",
        f"--timeout={1000 * LONG:.0f}",
        "--dump-dom",
        server.address,
    ]
    shown = subprocess.run(
        [browser, *how, *where], capture_output=True, text=True, timeout=LONG, check=True
    )
    assert "the run has ended; these are its last figures" in shown.stdout
    assert f"{server.watched.last.examples:,}" in shown.stdout
    assert not [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
