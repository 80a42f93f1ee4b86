"""The engine `ray`: actors host the agents, and the driver starts, watches and gathers.

`rounds` and `turns` are the driver's side (synchronous, asynchronous); `crew` is what both share, `moving`
changes its size, and `wishes` asks for that from outside. `host` is what an actor runs, with `group` and
`mailbox` for rounds, and `own_turns` for turns.
"""
