"""`ddol serve`: nodes, their exchange and an HTTP server in one process, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.node.config import NetworkConfig, NodeConfig, host_of, is_loopback
from ddol.node.errors import NodeError
from ddol.node.gossip import Gossip
from ddol.node.leaving import checked_between
from ddol.node.node import Node
from ddol.node.options import NodeOptions
from ddol.node.sources import LineTaker, begin_source
from ddol.update.losses import REGRESSION

if TYPE_CHECKING:
    from ddol.node.identity.member import Identity

_log = logging.getLogger("ddol.node")


class JsonLines(logging.Formatter):
    """Records of a log as JSON, one a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        told = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def begin_logs(kind: str) -> None:
    """Log to standard error, as text or as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if kind == "json" else plain)
    for name in ("ddol", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)


def nodes_of(config: NodeConfig) -> dict[str, Node]:
    """The nodes of all models, restored from their stores."""
    found: dict[str, Node] = {}
    for name, model in config.models.items():
        warm_up(model.algorithm, model.options)
        node = Node(config.name, model.algorithm, **vars(model.options))
        found[name] = node
        if model.initial is not None and not node.state()["examples"]:
            from ddol.node.exporting import begin_with

            begin_with(node, model.initial)
        for line in node.news:
            _log.info("%s", line)
    return found


def warm_up(algorithm: Algorithm, options: NodeOptions) -> None:
    """Compile what the first requests would wait for, with examples that are forgotten."""
    bits = None if options.hash_bits is None else min(options.hash_bits, 8)
    settings = vars(options) | {"store": None, "labels": None, "hash_bits": bits}
    rows: list[Any] = [{"x": 1.0}, [1.0]]
    if options.n_features is not None:
        rows = [[1.0] * options.n_features]
    elif options.columns is not None or options.hash_bits is not None:
        rows = [{(options.columns or ["x"])[0].partition("=")[0]: 1.0}]
    regression = algorithm.loss.task == REGRESSION
    labels = [0.0, 1.0] if regression else list(options.classes or ("a", "b"))
    for row in rows:
        nodes = [Node(name, algorithm, **settings) for name in ("one", "two")]
        for node in nodes:
            for label in labels[:2]:
                node.predict(row)
                node.learn(row, label)
        with contextlib.suppress(NodeError):  # algorithms of whole matrices send no named columns
            nodes[0].receive(nodes[1].message())


def talks_of(network: NetworkConfig | None, name: str, nodes: dict[str, Node]) -> list[Gossip]:
    """The exchange of every model."""
    if network is None:
        return []
    talks = []
    if network.identity is not None and (warning := checked_between(network.least)[1]):
        _log.warning("%s", warning)
    transport = transport_of(network, name)
    for model, node in nodes.items():
        talks.append(
            Gossip(node, transport, network.exchange, network.peers, network.fewest, model).start()
        )
    return talks


def transport_of(network: NetworkConfig, name: str) -> Any:
    """The transport of a node's messages."""
    from ddol.node.transport.seals import NoSeals
    from ddol.node.transport.zenoh import ZenohTransport, plain_settings

    identity = None
    if network.identity is not None:
        identity = identity_of(network.identity, name)
    if network.transport.startswith("mqtt://"):
        from ddol.node.transport.mqtt import MqttTransport

        if identity is None:
            return MqttTransport(name, network.transport, NoSeals())
        from ddol.node.transport.members import MemberMqtt

        return MemberMqtt(identity, network.transport)
    if identity is None:
        return ZenohTransport(name, plain_settings(network.listen, network.connect), NoSeals())
    from ddol.node.transport.members import MemberTransport

    return MemberTransport(identity, network.listen, network.connect)


def identity_of(folder: str, name: str | None = None) -> Identity:
    """The identity in a folder, which must be that of a name."""
    try:
        from ddol.node.identity.member import Identity
    except ImportError as error:
        raise NodeError(f"identities need {error.name}; pip install 'ddol[node]'") from None
    identity = Identity(folder)
    if name is not None and identity.name != name:
        raise NodeError(
            f"{folder}: is the identity of {identity.name!r}, expected {name!r}; give the node that name"
        )
    return identity


def relay(
    listen: Sequence[str],
    connect: Sequence[str],
    identity: str | None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Pass on what others say, until SIGTERM or SIGINT."""
    for address in listen:
        if identity is None and not is_loopback(address):
            raise NodeError(
                f"--listen: found {address} without --identity, expected a loopback address; see ddol network"
            )
    ended = _stopping()
    if identity is None:
        from ddol.node.transport.zenoh import open_session, plain_settings

        open_door: Any = open_session(plain_settings(listen, connect, "router"))
    else:
        from ddol.node.transport.members import MemberTransport

        open_door = MemberTransport(identity_of(identity), listen, connect, "router")
    _log.info("relay at %s", ", ".join(listen))
    if ready is not None:
        ready(", ".join(listen))
    while not ended.wait(1.0):
        pass
    open_door.close()


def serve(
    config: NodeConfig, ready: Callable[[str], None] | None = None, stdin: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT: then requests under way are answered, and all is written down.

    Parameters
    ----------
    config : NodeConfig
    ready : function, optional
        Called with the server's address when requests are taken.
    stdin : bool
        Take JSON lines from standard input, too, for the first model.
    """
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise NodeError(
            "ddol serve needs uvicorn; install it with: pip install 'ddol[node]'"
        ) from None
    stopping = _stopping()
    if config.http.token_file is not None:
        from ddol.node.identity.tokens import check_token

        check_token(config.http.token_file, "")  # an unreadable file is an error at the start
    nodes = nodes_of(config)
    talks: list[Gossip] = []
    sources: list[Callable[[], None]] = []
    try:
        talks = talks_of(config.network, config.name, nodes)
        for model, settings in config.models.items():
            sources += [begin_source(each, nodes[model], model) for each in settings.sources]
        if stdin:
            _read_lines(next(iter(nodes.values())))
        if not stopping.is_set():
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(_serve(config, nodes, ready, stopping))
    finally:
        for end in sources:
            end()
        for talk in talks:
            talk.finish()
        for talk in talks:  # models share one transport
            talk.close()
        lost = [line for node in nodes.values() for line in node.close()]
        for line in lost:
            _log.error("%s", line)
        kept = "not all is written down" if lost else "all is written down"
        _log.info("%s has ended; %s", config.name, kept)


def _loop_factory() -> Any:
    """uvloop takes half the time for a request; None where it is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _stopping() -> threading.Event:
    """Set by a signal during the start: the node then ends in order, too."""
    found = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: found.set())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return found


def _read_lines(node: Node) -> None:
    """Take lines from standard input in a thread of its own."""
    taker = LineTaker(node, lambda text: print(text, flush=True))
    arguments = sys.stdin.buffer, "standard input"  # bytes: text that is none ends nothing
    threading.Thread(target=taker.take_all, args=arguments, daemon=True, name="ddol lines").start()


async def _serve(
    config: NodeConfig,
    nodes: dict[str, Node],
    ready: Callable[[str], None] | None,
    stopping: threading.Event,
) -> None:
    import uvicorn

    from ddol.node.exporting import model_bytes
    from ddol.node.http import Served, application
    from ddol.node.idle import end_idle
    from ddol.node.tls import ServerTls

    shares = {n: m.share for n, m in config.models.items() if m.share is not None}
    served = Served(config.name, nodes, config.http, shares, model_bytes)
    host, port = host_of(config.http.listen)
    settings = uvicorn.Config(
        application(served), host=host, port=port, log_config=None, access_log=False, lifespan="off",
        server_header=False, proxy_headers=False, timeout_keep_alive=75, timeout_graceful_shutdown=10,
    )  # fmt: skip
    settings.load()
    tls = ServerTls(config.http) if config.http.certificate is not None else None
    settings.ssl = None if tls is None else tls.context
    server = _server(settings)
    served.connections = lambda: len(server.server_state.connections)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        served.ready, server.should_exit = False, True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if tls is not None:
        loop.add_signal_handler(signal.SIGHUP, tls.read_again)
    if stopping.is_set():
        stop()
    server.told = lambda place: _tell(config.name, place, settings.ssl is not None, ready)
    ending = asyncio.create_task(end_idle(server))
    await server.serve()
    ending.cancel()
    if not server.started:
        raise NodeError(f"[http] cannot listen at {config.http.listen}; is the port in use?")


def _tell(name: str, place: str, tls: bool, ready: Callable[[str], None] | None) -> None:
    address = f"{'https' if tls else 'http'}://{place}"
    _log.info("%s serves at %s", name, address)
    if ready is not None:
        ready(address)


def _server(config: Any) -> Any:
    """A server that says when it has begun, and leaves signals to us."""
    import uvicorn

    class QuietServer(uvicorn.Server):
        told: Callable[[str], None]

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: Any = None) -> None:
            try:
                await super().startup(sockets)
            except SystemExit:  # the port is in use, which uvicorn's log has said
                self.should_exit = True
                return
            if self.servers:
                place = self.servers[0].sockets[0].getsockname()
                self.told(f"{place[0]}:{place[1]}")

    return QuietServer(config)
