"""The engine `ray`: actors host the agents, and the driver starts, watches and gathers.

`rounds` and `turns` are the driver's side (synchronous, asynchronous); `pool` has the actors of both, and
`scaling` changes their number. `host` is what an actor runs, with `group` and `mailbox` for rounds, and
`actor_turns` and `turn_state` for turns.
"""
