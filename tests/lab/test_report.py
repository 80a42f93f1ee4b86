"""The report: its parts, nothing from elsewhere, and no complaint of a browser."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import ddol
import ddol.streams
from ddol.job.tally import Tally
from ddol.lab.report import write_report
from ddol.measure.regret import regret, regret_within_reach
from patience import LONG

HALVES = np.full((2, 2), 0.5)
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Parts(HTMLParser):
    """Headings, images' names and unbalanced tags of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.images, self.wrong = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if dict(attrs).get("role") == "img":
            self.images.append(dict(attrs)["aria-label"])

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    return X, np.sign(X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(600))


def written(tmp_path, trace, **options):
    path = tmp_path / "run.html"
    write_report(trace, path, **options)
    return path.read_text(encoding="utf-8")


def test_it_has_its_parts(data, tmp_path):
    trace = ddol.run(ddol.dogd(), data, ddol.ring(5))
    tally = Tally(5, ("no", "yes"))
    tally.evaluation.add(data[1], data[1])
    text = written(tmp_path, trace, command="ddol train 'a & b' --agents 5", tally=tally)
    page = Parts(text)
    assert page.wrong == []
    assert page.open == []
    for part in (
        "Which classes were confused",
        "Wrong predictions so far",
        "Mean loss so far",
        "Consensus over rounds",
        "Sent between agents",
        "Bound",
        "Network",
        "By agent",
        "Technical details",
        "How it was made",
    ):
        assert part in page.headings
    assert "ring network" in page.images
    assert "ddol train &#x27;a &amp; b&#x27; --agents 5" in text
    assert "not that of the complete graph" in text
    assert f"{trace.messages:,}" in text
    assert text.count("<tr>") >= 5 + 5


def test_curves_stand_against_the_bound(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.choice([-1.0, 1.0], 200)
    advice = np.where(rng.random((200, 3)) < 0.2, -y[:, None], y[:, None])
    trace = ddol.run(ddol.dwm_i(), (advice, y), 4)
    text = written(tmp_path, trace)
    assert "Mistakes against the DWM-I bound" in text
    assert f"{trace.bounds['DWM-I']['value']:,.1f} allowed" in text
    assert ">kept<" in text


def test_regret_is_shown_beside_its_bound(data, tmp_path):
    trace = ddol.run(ddol.dogd(), data, 3)
    text = written(tmp_path, trace, regret=regret(trace, data))
    assert "Social regret" in text
    assert "optimality gap at most" in text


def test_regret_without_a_curve_is_a_sentence(data, tmp_path):
    trace = ddol.run(ddol.dogd(), data, ddol.ring(3), schedule="async")
    found = regret(trace, data)
    assert len(found.social_curve) == 1
    text = written(tmp_path, trace, regret=found)
    assert "Regret at the end, of all agents together" in text
    assert "Social regret" not in Parts(text).headings


@pytest.mark.parametrize(
    "run",
    [
        lambda X, y: ddol.run(ddol.adaptive("squared"), (X, X[:, 0]), 1),
        lambda X, y: ddol.run(ddol.dogd(), (X, y), ddol.complete(100)),
        lambda X, y: ddol.run(ddol.dogd(), (X, y), 2, mixing=ddol.changing(lambda t: HALVES)),
    ],
    ids=["regression", "many agents", "changing network"],
)
def test_every_run_has_a_report(data, tmp_path, run):
    assert Parts(written(tmp_path, run(*data))).wrong == []


def test_nothing_comes_from_elsewhere(data, tmp_path):
    text = written(tmp_path, ddol.run(ddol.dogd(), data, 3), command="ddol train")
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text)
    assert not re.search(r"url\(|@import|https?://|<script", text)


def test_an_older_file_stays_until_the_new_one_is_whole(data, tmp_path):
    path = tmp_path / "run.html"
    path.write_text("old")
    trace = ddol.run(ddol.dogd(), data, 3)
    write_report(trace, path)
    assert path.read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_a_browser_shows_it_without_complaint(data, tmp_path):
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None
    )
    if browser is None:
        pytest.skip("no Chromium is installed; install the package chromium to run this test")
    path = tmp_path / "run.html"
    write_report(ddol.run(ddol.dogd(), data, ddol.ring(6)), path, command="ddol train")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    where = [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
    shown = subprocess.run(
        [browser, *options, *where], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "CONSOLE" not in shown.stderr
    assert Parts(shown.stdout).headings == Parts(path.read_text(encoding="utf-8")).headings


def test_it_names_data_loss_options_and_date(data, tmp_path):
    trace = ddol.run(ddol.dogd("huber", C=2.5), data, 3, period=4)
    text = written(tmp_path, trace, data="the <tumours> of Bern")
    for value in ("the &lt;tumours&gt; of Bern", "huber (1)", "2.5", "1, 4, 0", "1/√t"):
        assert f"<td>{value}" in text
    assert re.search(r"<td>\d\d \w+ 20\d\d, \d\d:\d\d", text)


def test_agents_that_always_agree_need_no_chart(data, tmp_path):
    agreeing = written(tmp_path, ddol.run(ddol.dogd(), data, 3))
    assert "All agents have the same weights after every round" in agreeing
    assert "Consensus over rounds" not in agreeing
    assert "Consensus over rounds" in written(tmp_path, ddol.run(ddol.dogd(), data, ddol.ring(5)))


def test_a_torus_shows_where_it_is_closed(data, tmp_path):
    torus = written(tmp_path, ddol.run(ddol.dogd(), data, ddol.torus(3, 4)))
    grid = written(tmp_path, ddol.run(ddol.dogd(), data, ddol.grid(3, 4)))
    assert len(re.findall(r'<path d="M[^"]*Q', torus)) == 3 + 4
    assert len(re.findall(r'<path d="M[^"]*Q', grid)) == 0


def test_mirror_descent_has_its_bound_where_it_takes_seconds(data, tmp_path):
    stream = [ddol.streams.RowsStream(ddol.streams.Rows.from_dense(*data))]
    trace = ddol.run(ddol.dogd(), stream, 3)
    found = regret_within_reach(trace, stream)
    text = written(tmp_path, trace, regret=found)
    assert f"{found.bounds['DOMD']['value']:,.1f} allowed" in text
    experts = ddol.run(ddol.dwm_i(), (np.sign(data[0]), data[1]), 3)
    assert regret_within_reach(experts, stream) is None


def test_it_names_the_options_of_the_algorithm(data, tmp_path):
    path = tmp_path / "run.html"
    write_report(ddol.run(ddol.dogd(l2=0.25, radius=3.0), data, 2, query=0.5), path)
    text = path.read_text()
    for name, value in (("l2", "0.25"), ("radius", "3"), ("query", "kind budget, share 0.5")):
        assert f'<th scope="row">{name}</th><td>{value}</td>' in text
    answers = np.sign(data[1])
    advice = answers[:, None] * [1.0, -1.0, 1.0]
    write_report(ddol.run(ddol.dwm_i(alpha=0.75), (advice, answers), 2), path)
    assert '<th scope="row">alpha</th><td>0.75</td>' in path.read_text()
    assert "3 experts" in path.read_text()


def test_edges_that_carry_the_same_are_no_chart(data, tmp_path):
    path = tmp_path / "run.html"
    write_report(ddol.run(ddol.dogd(), data, ddol.ring(4), schedule="async"), path)
    assert "Messages by edge" not in path.read_text()
    write_report(ddol.run(ddol.dogd(), data, ddol.ring(4), talk="drift"), path)
    assert "Messages by edge" in path.read_text()


def test_a_regret_beyond_the_certificate_is_explained(data, tmp_path):
    """The certificate of `adaptive` is about the unit ball, and the best weights are longer."""
    path = tmp_path / "run.html"
    trace = ddol.run(ddol.adaptive(), data, ddol.ring(4), schedule="async")
    for beyond in (-1.0, 1.0):
        each = np.full(4, (trace.certificate.total + beyond) / 4)
        found = replace(regret(trace, data), individual=each)
        write_report(trace, path, regret=found)
        assert ("outside of the set" in path.read_text()) == (beyond > 0.0)
