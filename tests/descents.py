"""Mirror descent in all spaces and domains, and rounds of all kinds: what several tests try."""

from __future__ import annotations

from ddol.update.domains import everywhere, l1_ball, l2_ball, norm_ball, simplex
from ddol.update.mirrors import MirrorDescent, entropy, euclidean, p_norm_mirror, signed_entropy

DESCENTS = {
    "euclidean": MirrorDescent(euclidean),
    "euclidean, L2": MirrorDescent(euclidean, l2=0.5),
    "euclidean, L2 ball": MirrorDescent(euclidean, l2_ball(0.5), l2=0.1),
    "euclidean, L1 ball": MirrorDescent(euclidean, l1_ball(0.5)),
    "euclidean, simplex": MirrorDescent(euclidean, simplex(2.0)),
    "entropy": MirrorDescent(entropy, everywhere, l2=0.1),
    "entropy, simplex": MirrorDescent(entropy, simplex(2.0)),
    "signed entropy": MirrorDescent(signed_entropy, l1_ball(3.0)),
    "signed entropy, L2": MirrorDescent(signed_entropy, l1_ball(3.0), l2=0.2),
    "p-norm": MirrorDescent(p_norm_mirror(1.5), l2=0.1),
    "p-norm ball": MirrorDescent(p_norm_mirror(1.3), norm_ball(0.5)),
}
PLACES = ({}, {"batch": 2}, {"period": 3}, {"delay": 2}, {"batch": 3, "period": 2, "delay": 1})
