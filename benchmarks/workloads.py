"""What is contested: each workload is its data and the network that learns from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import data
from benchmarks.data import Advice, Arrays, Text

Data = Arrays | Text | Advice


@dataclass(frozen=True)
class Workload:
    """Data, and the settings that every contestant gets.

    Parameters
    ----------
    name, title : str
    make : function of the number of examples
    examples, quick : int or None
        Examples of a full and of a quick run; None for all there are.
    rate : float
        Steps are rate/√t, for everybody whose steps can be chosen.
    l2 : float
        Weight of ‖w‖²/2, for everybody who has it.
    network : str
        "alone", or number and shape: "64 ring".
    """

    name: str
    title: str
    make: Callable[[int | None], Data]
    examples: int | None = None
    quick: int | None = None
    rate: float = 1.0
    l2: float = 0.0
    network: str = "alone"


def _covtype(dense: bool = True) -> Callable[[int | None], Arrays]:
    return lambda n: data.arrays("covtype", n, dense)


def _networks() -> list[Workload]:
    shapes = ("64 complete", "64 ring", "64 torus", "10000 ring")
    return [
        Workload(
            f"agents-{shape.replace(' ', '-')}",
            f"covtype, dense, {shape.split()[0]} agents on a {shape.split()[1]} graph",
            _covtype(),
            quick=50_000,
            rate=3.0,
            network=shape,
        )
        for shape in shapes
    ]


WORKLOADS = (
    Workload(
        "svmguide1",
        "svmguide1, standardised: 3,089 × 4",
        lambda n: data.standardised("svmguide1", n),
    ),
    Workload(
        "cod-rna",
        "cod-rna, standardised: 59,535 × 8",
        lambda n: data.standardised("cod-rna", n),
    ),
    Workload(
        "covtype-dense",
        "covtype, dense: 581,012 × 54",
        _covtype(),
        quick=50_000,
        rate=3.0,
    ),
    Workload(
        "covtype-csr",
        "covtype, CSR: 581,012 × 54, 12 non-zeros a row",
        _covtype(dense=False),
        quick=50_000,
        rate=3.0,
    ),
    Workload(
        "like-rcv1",
        "synthetic, like rcv1: 1,000,000 × 50,000, 70 non-zeros a row, with L2",
        lambda n: data.like_rcv1(n or 1_000_000),
        quick=10_000,
        rate=10.0,
        l2=1e-6,
    ),
    Workload(
        "classes",
        "synthetic, 10 classes: 200,000 × 50",
        lambda n: data.clusters(n or 200_000),
        quick=5_000,
        rate=0.1,
    ),
    Workload(
        "experts-100",
        "weighted majority, 100 experts: 20,000 rounds",
        lambda n: data.experts(n or 20_000, 100),
        quick=5_000,
    ),
    Workload(
        "experts-1000",
        "weighted majority, 1,000 experts: 20,000 rounds",
        lambda n: data.experts(n or 20_000, 1_000),
        quick=2_000,
    ),
    *_networks(),
    Workload(
        "covtype-text",
        "covtype, from LIBSVM text (73 MB) to a model on disk",
        lambda n: data.files("covtype", n),
        quick=50_000,
    ),
    Workload(
        "covtype-text-x10",
        "covtype ten times over, from LIBSVM text (730 MB) to a model on disk",
        lambda n: data.files("covtype", n, times=10),
        quick=20_000,
    ),
)
