"""Every kind of number, name and identifier that leaves a site, and who sees it."""

from __future__ import annotations

from typing import NamedTuple

from ddol.algorithm import Algorithm


class Leaving(NamedTuple):
    """Something that others than the site's own processes get to see."""

    what: str
    by: str
    where: str


_SITES, _READERS = "other sites", "readers of the file"
_STATISTICS = "of every feature: how many examples had it, the sum of its values, their squares"
_NAMED = {
    "seen": "number of examples", "sampled": "number of examples in statistics", "heard": "number of answers",
    "answers": "sum of the answers (regression)", "variation": "their squares (regression)",
}  # fmt: skip


def inventory(algorithm: Algorithm) -> list[Leaving]:
    """All that leaves a site in a job with this algorithm, and where it is seen.

    Examples
    --------
    >>> import ddol
    >>> [each.where for each in inventory(ddol.adaptive().on(2))][0]
    'other sites'
    >>> inventory(ddol.private(ddol.adaptive(), "epsilon:4").on(2))[0].what
    'of every feature: the sum of clipped gradients, with noise; it moves once in 50 examples'
    """
    numbers = _numbers(algorithm) if algorithm.privacy is None else _private(algorithm)
    return [*numbers, *_examples(algorithm), *_ALWAYS]


def _numbers(algorithm: Algorithm) -> list[Leaving]:
    """Those of a message, which a safe agent sends of its shared learner only."""
    shared = algorithm.update.learners[0] if algorithm.has_mixture else algorithm.update  # type: ignore[attr-defined]
    layout, leaving = shared.layout(algorithm.average, 1), []
    if layout.statistics[0]:
        rounds = "; later 1 exchange in 32 has them" if layout.sampled else ""
        leaving.append(_STATISTICS + rounds)
    rows = len(layout.message_rows) - layout.statistics[0]
    experts = algorithm.update.experts
    kind = "logarithms of experts' weights" if experts else "weights and step sizes"
    leaving.append(f"{rows} number{'s' * (rows > 1)} for every feature: {kind}")
    sent = layout.scalar_fields[: layout.linear_scalars + layout.largest_scalars]
    names = [_NAMED.get(field.name, "") for field in sent]
    steps = names.count("")
    listed = [name for name in names if name] + [f"{steps} of the steps"] * (steps > 0)
    if listed:
        leaving.append(f"scalars: {', '.join(listed)}")
    return [Leaving(what, "message", _SITES) for what in leaving]


def _private(algorithm: Algorithm) -> list[Leaving]:
    """Those of a message with a privacy budget."""
    budget = algorithm.privacy
    every, public = getattr(budget, "every", 0), getattr(budget, "public", 0)
    leaving = [
        f"of every feature: the sum of clipped gradients, with noise; it moves once in {every} examples"
    ]
    if public:
        leaving.append(
            f"of the first {public} examples, which are public: sums of values and squares"
        )
    return [Leaving(what, "message", _SITES) for what in leaving]


def _examples(algorithm: Algorithm) -> list[Leaving]:
    """Examples, labels and choices that some rules send."""
    leaving = []
    if algorithm.teach is not None:
        leaving.append(("whole examples with their labels, or gradients of single ones", "--teach"))
    if getattr(algorithm.query, "neighbours", False):
        leaving.append(("whole examples without labels, to ask what they are", "--query"))
    if algorithm.talk is not None:
        leaving.append(
            ("whether the message has moved since the last one, and which part", "--talk")
        )
    if algorithm.talk_to is not None:
        leaving.append(("which neighbours are sent a message", "--talk-to"))
    return [Leaving(what, option, _SITES) for what, option in leaving]


_ALWAYS = (
    Leaving(
        "site's name, address and certificate; name of the model; number, size and time of each message",
        "node",
        "other sites, relay",
    ),
    Leaving(
        "names and kinds of columns, categories, class labels; digest of the algorithm",
        "node",
        _SITES,
    ),
    Leaving("number of examples learned from, number of peers", "node", _SITES),
    Leaving(
        "weights and statistics of every site; names of sites, columns, categories and classes; means that "
        "fill missing values; settings of the run",
        "model, checkpoint, a node's model download",
        _READERS,
    ),
    Leaving("rows that wait for their labels (--delay)", "checkpoint", _READERS),
    Leaving("scores, labels and row numbers", "--predictions", _READERS),
    Leaving(
        "errors and losses by site, names of sites and columns, largest weights",
        "report, --json, --progress-json, live page",
        "readers of the file or page",
    ),
    Leaving("paths of the data, names of columns, settings", "--save-job", _READERS),
    Leaving(
        "rows, labels and request identifiers; digests of peers' messages",
        "journal and snapshots (store)",
        "the site itself",
    ),
    Leaving("predictions for their own requests", "HTTP", "clients with a token"),
    Leaving(
        "counts of predictions and answers, error of a window, names of peers, refused messages",
        "/metrics, live page",
        "clients with a token",
    ),
    Leaving(
        "names of files, columns and peers; a cell or label that cannot be read is quoted",
        "log, error lines",
        "readers of the log",
    ),
    Leaving("numbers of rows, times, graph; no row", "recording (--record)", _READERS),
)
