"""Runs as lists of events, with late labels, rare exchanges and lost messages, and the sources of such lists.

- `events`: the list itself; `recording`: the list in a file; `linking`: the list, checked.
- `rounds`: synchronous rounds as a list, and back; `wiring`: the edges that messages take.
- `conditions`: speeds, latencies, losses, delays, absences; `clock`: the list that they lead to.
"""
