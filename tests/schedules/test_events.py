"""The list of events: made, checked, written down, read back."""

import zipfile

import numpy as np
import pytest

from ddol.communicate.mixing import metropolis
from ddol.communicate.topologies import ring
from ddol.schedules.events import (
    Event,
    Events,
    adopt,
    answer,
    join,
    leave,
    mix,
    predict,
    receive,
    send,
)
from ddol.schedules.linking import linked
from ddol.schedules.recording import load_events, save_events
from ddol.schedules.wiring import Wiring

WIRES = Wiring.of(metropolis(ring(4)))


def test_generator_is_told_the_place_of_its_messages():
    def schedule():
        yield predict(0, 0)
        message = yield send(0)
        yield receive(1, 0, message)

    events = Events.of(schedule())
    assert str(events[2]) == "receive(1, 0, 1)"


def test_plain_list_makes_the_same_events():
    assert Events.of([send(0), receive(1, 0, 0)]).row.tolist() == [-1, 0]


def test_no_event_at_all_is_an_empty_list():
    assert len(Events.of([])) == 0
    assert len(linked(Events.of([]), WIRES, 0).kind) == 0


def test_schedule_that_yields_something_else_is_refused():
    with pytest.raises(TypeError, match="event 1 of the schedule is 7, expected an Event"):
        Events.of([predict(0), 7])


def test_number_that_is_not_whole_is_refused():
    with pytest.raises(ValueError, match="`agent` of an event must be a whole number"):
        Events.of([Event(0, 0.5)])


IMPOSSIBLE = {
    "answers a row that agent 0 has not predicted": [answer(0, 3)],
    "has not predicted, or that is answered": [predict(0, 1), answer(0, 1), answer(0, 1)],
    "names a row that does not exist, of 0 to 9": [predict(0, 10)],
    "names an agent that does not exist, of 0 to 3": [predict(4, 0)],
    "is of an agent with itself": [mix(2, 2)],
    "are not neighbours": [mix(0, 2)],
    "no message of agent 1 at that place before": [send(0), receive(0, 1, 0)],
    "no message of agent 3 at that place before": [receive(0, 3, 5)],
    "happens to an agent that is absent": [leave(1), predict(1, 0)],
    "does not say with whom": [Event(3, 0)],
    "is of kind 11, expected 0 to 10": [Event(11, 0)],
    "time that is not finite": [predict(0, 0, np.inf)],
}


@pytest.mark.parametrize("why", IMPOSSIBLE)
def test_impossible_list_is_refused_in_one_line(why):
    with pytest.raises(ValueError, match=why) as caught:
        linked(Events.of(IMPOSSIBLE[why]), WIRES, 10)
    assert "\n" not in str(caught.value)


def test_answers_come_in_any_order_and_rows_may_return():
    events = Events.of(
        [predict(0, 1), predict(0, 2), predict(0, 1), answer(0, 2), answer(0, 1), answer(0, 1)]
    )
    slot = linked(events, WIRES, 3).slot
    assert slot[3] == slot[1]
    assert slot[4] == slot[0]  # the older prediction of row 1 is answered first
    assert slot[5] == slot[2]
    assert len(set(slot[:3])) == 3


def test_prediction_that_is_never_answered_takes_no_slot():
    assert linked(Events.of([predict(0, 1)]), WIRES, 3).slot.tolist() == [-1]


def test_slots_of_messages_are_used_again():
    events = Events.of(
        [send(0), receive(1, 0, 0), send(1), receive(0, 1, 2), send(2), receive(1, 2, 4)]
    )
    assert linked(events, WIRES, 0).messages == 1


def test_absent_agent_may_be_sent_to_and_come_back():
    events = [send(0), leave(1), receive(1, 0, 0), join(1), predict(1, 0), adopt(1, 0)]
    assert len(linked(Events.of(events), WIRES, 1).kind) == 6


def test_recording_comes_back(tmp_path):
    events = Events.of([predict(0, 2, 0.5), answer(0, 2, 0.75), send(0, 1.0)])
    save_events(tmp_path / "run.npz", events)
    again = load_events(tmp_path / "run.npz")
    assert again.same_as(events)
    assert again.time.tolist() == [0.5, 0.75, 1.0]
    with np.load(tmp_path / "run.npz") as plain:
        assert {name: plain[name].dtype.str for name in plain.files} == {
            "kind": "|i1", "agent": "<i4", "peer": "<i4", "row": "<i8", "time": "<f8",
        }  # fmt: skip


def _arrays(**changes):
    made = {
        "kind": np.zeros(2, np.int8), "agent": np.zeros(2, np.int32), "peer": np.full(2, -1, np.int32),
        "row": np.zeros(2, np.int64), "time": np.zeros(2),
    }  # fmt: skip
    return {name: value for name, value in (made | changes).items() if value is not None}


BROKEN = {
    "`row` is missing": _arrays(row=None),
    "`kind` is int64 with shape": _arrays(kind=np.zeros(2, np.int64)),
    "equally long, found kind 3, agent 2": _arrays(kind=np.zeros(3, np.int8)),
    "`kind` of event 1 is 11": _arrays(kind=np.array([0, 11], np.int8)),
    "`agent` of event 0 is -1": _arrays(agent=np.array([-1, 0], np.int32)),
    "`row` of event 1 is -2": _arrays(row=np.array([0, -2])),
    "`time` of event 1 is nan": _arrays(time=np.array([0.0, np.nan])),
    "with shape \\(2, 1\\)": _arrays(time=np.zeros((2, 1))),
    "is object": _arrays(row=np.array([{}, {}])),
}


@pytest.mark.parametrize("why", BROKEN)
def test_broken_recording_is_refused_in_one_line(tmp_path, why):
    np.savez(tmp_path / "run.npz", **BROKEN[why])
    with pytest.raises(ValueError, match=why) as caught:
        load_events(tmp_path / "run.npz")
    assert "\n" not in str(caught.value)


def test_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "run.npz").write_text("hello")
    with pytest.raises(ValueError, match="not a recording"):
        load_events(tmp_path / "run.npz")


def test_size_that_the_file_does_not_have_is_refused(tmp_path):
    save_events(tmp_path / "good.npz", Events.of([predict(0, 0)]))
    with zipfile.ZipFile(tmp_path / "good.npz") as good:
        members = {name: good.read(name) for name in good.namelist()}
    members["row.npy"] = members["row.npy"].replace(b"(1,)", b"(9,)")
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as bad:
        for name, data in members.items():
            bad.writestr(name, data)
    with pytest.raises(ValueError, match="says it has 9 numbers, the file has 8 bytes"):
        load_events(tmp_path / "bad.npz")
