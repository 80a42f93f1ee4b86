import os
import subprocess
import sys

import pytest

from ddol.engines.ray.host_cores import HostCores

_CODE = """
import os, threading
from ddol.engines.ray.host_cores import HostCores
over = threading.Event()
threading.Thread(target=over.wait).start()
def where():
    return {tuple(sorted(os.sched_getaffinity(int(each)))) for each in os.listdir("/proc/self/task")}
cores, before = HostCores(), where()
last = len(cores.allowed) - 1
cores.take(last, len(cores.allowed))
own = where()
cores.take(last, len(cores.allowed) + 1)
print(own == {(max(cores.allowed),)}, where() == before)
over.set()
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen in Linux only")
def test_all_threads_of_an_actor_are_on_its_core_while_every_core_has_an_actor():
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_cores_are_left_alone_where_others_may_need_them_or_actors_take_turns():
    assert [HostCores({2, 3, 7}).core(number, here=3) for number in range(3)] == [2, 3, 7]
    assert HostCores({2, 3, 7}).core(1, here=2) is None
    assert HostCores({2, 3, 7}).core(3, here=4) is None
