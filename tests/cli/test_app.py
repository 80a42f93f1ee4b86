"""The help pages, and how wrong usage ends."""

from __future__ import annotations

import signal

import click
import pytest

from ddol.cli.app import app
from ddol.job.stopping import StoppedError
from ddol.version import __version__


def test_without_a_command_the_help_page_is_shown(ddol):
    result = ddol()
    assert result.exit_code == 2 and result.stderr == ""
    named = [line.split()[0] for line in result.stdout.partition("Commands:\n")[2].splitlines()]
    assert [name for name in named if name in app.homes] == list(app.homes)


def test_version(ddol):
    assert ddol("--version").stdout == f"ddol {__version__}\n"


def test_options_of_train_are_in_panels(ddol):
    lines = ddol("train", "--help-all").stdout.splitlines()
    panels = [line for line in lines if line and not line.startswith((" ", "Usage"))]
    names = ["Algorithm", "Network", "Schedule", "Data", "Run", "Output", "Options"]
    assert [panel.split(":")[0].split(" (")[0] for panel in panels] == names
    shown = "  --agents N       Number of agents.  [default: (one for each file, or 4; 1 for"
    assert shown in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", app.homes)
def test_every_option_is_explained(name):
    command = app.get_command(click.Context(app), name)
    assert command is not None and command.name == name
    for param in command.params:
        assert param.param_type_name == "argument" or param.help


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fly",), "No such command 'fly'"),
        (("train", "--wings", 2), "No such option"),
        (("train", "--C"), "requires an argument"),
        (("predict",), "Missing argument 'MODEL'"),
    ],
)
def test_wrong_usage_is_one_line_and_the_exit_code_2(ddol, arguments, message):
    result = ddol(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    *_, last = result.stderr.splitlines()
    assert last.startswith("Error: ") and message in last


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bits", 32), "--bits: found 32, expected a whole number from 1 to 31"),
        (("--bits", "many"), "--bits: found 'many', expected a whole number from 1 to 31"),
        (("--seed", -1), "--seed: found -1, expected a whole number of at least 0"),
        (("--holdout", "nan"), "--holdout: found nan, expected a number from 0 to 0.5"),
        (("--rate", "fast"), "--rate: found 'fast', expected a number above 0"),
        (("--deal", "poker"), "--deal: found 'poker', expected one of round-robin, contiguous"),
    ],
)
def test_wrong_values_are_one_line_and_the_exit_code_2(ddol, arguments, message):
    result = ddol("train", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"ddol: {message}\n"


def test_launch_passes_on_what_it_does_not_know(ddol, monkeypatch):
    jobs = []
    monkeypatch.setattr("ddol.launch.launch", lambda *job: jobs.append(job) or 3)
    options = ("train", "-", "--agents", 8, "-q", "--C", -1)
    assert ddol("launch", "-n", 4, "--no-ft", *options).exit_code == 3
    assert jobs == [(4, list(map(str, options)), None, False)]


def test_a_signal_that_compiled_code_wraps_is_a_signal(monkeypatch, capsys):
    def wait(*options, **more):
        raise SystemError("a result with an exception set") from StoppedError(signal.SIGINT)

    monkeypatch.setattr(app, "get_command", lambda *asked: click.Command("wait", callback=wait))
    with pytest.raises(SystemExit) as end:
        app(["wait"])
    assert end.value.code == 130
    assert capsys.readouterr().err == "stopped by SIGINT\n"
