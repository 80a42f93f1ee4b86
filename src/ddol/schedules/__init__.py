"""Late, rare, lost: what happens in a run, as a list of events, and where such lists come from.

- `events`: the list itself; `recording`: the list in a file; `linking`: the list, checked.
- `rounds`: synchronous rounds as a list, and back.
- `conditions`: speeds, latencies, losses, delays, absences; `clock`: the list that they lead to.
"""
