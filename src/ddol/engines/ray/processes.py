"""The actors of a Ray job as the driver's learner sees them."""

from __future__ import annotations

from dataclasses import replace

from ddol.engines.errors import EngineError
from ddol.engines.feed import Past
from ddol.engines.groups.processes import SingleProcess
from ddol.engines.learner import Learner
from ddol.engines.ray.rounds import Ray
from ddol.engines.ray.turns import AsyncRay


class Actors(SingleProcess):
    """The actors of a Ray job as the driver's learner sees them."""

    def plays_feed(self, learner: Learner) -> bool:
        """Let the actors read and play the feed, and tell what happens."""
        if learner.setup.schedule.plays_events:
            _follow_turns(learner)
        else:
            _follow_rounds(learner)
        return True


def _follow_rounds(learner: Learner) -> None:
    """The same where all actors play rounds together."""
    engine = learner.engine
    if engine is None:
        engine = learner.engine = Ray(learner.algorithm, learner.start, learner.setup)
    assert isinstance(engine, Ray)
    began = learner.past()
    with learner.timing():
        try:
            engine.follow(learner.feed, learner.position, lambda: _tell(learner, engine))
        except BaseException:
            if engine.failure is None:  # the actors have gone back to a common moment
                _take_over(learner, engine.past() if engine.version else began)
            raise
        _take_over(learner, engine.past())
        if learner.history.log is not None:
            learner.history.log.fill(engine.counters().examples, learner.feed.passes)
        progress = engine.progress()
        if learner.on_progress is not None and progress is not None:
            learner.on_progress(progress)


def _follow_turns(learner: Learner) -> None:
    """The same where nobody waits for anybody."""
    if not (learner.setup.n_features or learner.feed.n_features):
        raise EngineError(
            "found streams that do not say how many features they have, expected to know it before "
            "messages are sent; use --features n (n_features=)"
        )
    engine = learner.opened(0)
    assert isinstance(engine, AsyncRay)
    with learner.timing():
        engine.follow(learner.feed, learner.look)


def _take_over(learner: Learner, past: Past) -> None:
    learner.position = past.position
    learner.history.restore(past.curves)


def _tell(learner: Learner, engine: Ray) -> None:
    """Call the driver's `on_progress`: between two blocks where all actors have a new copy."""
    if learner.on_progress is None:
        return
    moment = engine.show()
    if moment is not None:
        past, progress = moment
        _take_over(learner, past)
        if progress is not None:
            learner.on_progress(progress)
    elif engine.shown and engine.watch.statuses:  # before, nobody could ask for the state
        progress = engine.watch.statuses[0].progress
        if progress is not None:
            learner.on_progress(replace(progress, position=None))
