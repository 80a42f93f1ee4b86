"""Read and check node.toml, the settings of `ddol serve`."""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

import msgspec

from ddol.algorithm import Algorithm
from ddol.job.algorithm import algorithm_named
from ddol.node.errors import NodeError
from ddol.node.options import NodeOptions
from ddol.presets import PRESETS
from ddol.together import private, safe

_NODE = tuple(f.name for f in fields(NodeOptions) if f.name not in ("compress", "average"))
_TOP = ("name", "model", "models", "http", "network", "logs", "privacy", *_NODE)
_MODEL = ("algorithm", "safe", "privacy", "initial", "share", "sources", *_NODE)


@dataclass(frozen=True)
class ModelConfig:
    """One model of a node.

    Parameters
    ----------
    algorithm : Algorithm
    options : NodeOptions
    initial : str, optional
        A model file whose weights the node begins with.
    share : float, optional
        Share of the requests to the first model's address that this one answers.
    sources : addresses such as ``mqtt://127.0.0.1:1883/shop/labels``
        Topics that examples and labels come from.
    """

    algorithm: Algorithm
    options: NodeOptions
    initial: str | None = None
    share: float | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class HttpConfig:
    """The HTTP server.

    Parameters
    ----------
    listen : str
    token_file : str, optional
        Tokens of clients, as `ddol network token` writes them, or one in plain.
    certificate, key : str, optional
        For TLS; read again on SIGHUP.
    clients : str, optional
        Certificates that clients' certificates must be signed by.
    most_body : int
        Bytes of a request.
    rate : float, optional
        Requests a second from one address.
    connections : int
        That are served at once.
    """

    listen: str = "127.0.0.1:8001"
    token_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    clients: str | None = None
    most_body: int = 1 << 20
    rate: float | None = None
    connections: int = 1000


@dataclass(frozen=True)
class NetworkConfig:
    """Peers of the node, and when it sends to them.

    Parameters
    ----------
    listen, connect : addresses such as ``tcp/127.0.0.1:7001``
    identity : str, optional
        The folder of `ddol network join`; without it only loopback addresses are allowed.
    exchange : str
        ``1s``, ``100 answers`` or ``drift:0.1``.
    peers : list of names, or "all", "ring", "exponential"
        Whose messages are averaged.
    least : int, optional
        Least number of answers learned between two messages: by default 100 with an identity, where other
        organisations receive them, and 1 without.
    transport : str
        ``zenoh``, or ``mqtt://host:port``.
    compress : str, optional
        ``float32``: messages of half the size.
    average : str, optional
        ``clip:b`` or ``trim:b``: up to b peers may send false messages.
    """

    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    identity: str | None = None
    exchange: str = "1s"
    peers: tuple[str, ...] | str = "all"
    least: int | None = None
    transport: str = "zenoh"
    compress: str | None = None
    average: str | None = None

    @property
    def fewest(self) -> int:
        """Answers between two messages, as given or by default."""
        from ddol.node.leaving import checked_between

        alone = self.least is None and self.identity is None
        return 1 if alone else checked_between(self.least)[0]


@dataclass(frozen=True)
class NodeConfig:
    """All settings in node.toml.

    Examples
    --------
    >>> config = read_config({"name": "eu", "model": {"algorithm": "adaptive", "loss": "logistic"}})
    >>> config.models["default"].algorithm.name, config.http.listen, config.network
    ('adaptive', '127.0.0.1:8001', None)
    """

    name: str
    models: Mapping[str, ModelConfig]
    http: HttpConfig = field(default_factory=HttpConfig)
    network: NetworkConfig | None = None
    logs: str = "text"


def load_config(path: str | Path) -> NodeConfig:
    """Read a node.toml; an error is one line that names the place."""
    place = Path(path)
    try:
        told = tomllib.loads(place.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise NodeError(f"{path}: {error}; see the example in docs/node.md") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise NodeError(f"{path}: cannot be read ({reason})") from None
    try:
        return read_config(told, place.parent)
    except (ValueError, TypeError) as error:
        raise NodeError(f"{path}: {error}") from None


def with_initial(config: NodeConfig, path: str) -> NodeConfig:
    """The settings with a model file that the first model starts from."""
    first = next(iter(config.models))
    models = {**config.models, first: replace(config.models[first], initial=path)}
    return replace(config, models=models)


def read_config(told: Mapping[str, Any], folder: Path | None = None) -> NodeConfig:
    """Settings from a table; paths are relative to `folder`."""
    here = folder or Path()
    _check_keys(told, _TOP, "")
    if not isinstance(told.get("name"), str):
        raise NodeError("`name`: found none, expected the node's name")
    if "model" in told and "models" in told:
        raise NodeError("[model] does not go with [models.NAME]; leave one out")
    tables = told.get("models", {"default": told.get("model", {})})
    if not isinstance(tables, Mapping) or not tables:
        raise NodeError(f"[models]: found {tables!r}, expected a table for every model")
    common = {name: told[name] for name in ("privacy", *_NODE) if name in told}
    network = None
    if "network" in told:
        network = _table(NetworkConfig, told["network"], "network", here)
        _check_network(network)
        common |= {"compress": network.compress, "average": network.average}
    models = {name: _model(name, table, common, here) for name, table in tables.items()}
    http = _table(HttpConfig, told.get("http", {}), "http", here)
    private_ones = any(model.algorithm.privacy for model in models.values())
    if network is not None and "drift" in network.exchange and private_ones:
        raise NodeError(
            "[network] `exchange`: found drift, expected a time or a number of answers: with `privacy` "
            "examples must not decide when messages go"
        )
    _check_http(http)
    _check_shares(models)
    if told.get("logs", "text") not in ("text", "json"):
        raise NodeError(f"`logs`: found {told['logs']!r}, expected text or json")
    return NodeConfig(told["name"], models, http, network, told.get("logs", "text"))


def _model(
    name: str, table: Mapping[str, Any], common: Mapping[str, Any], here: Path
) -> ModelConfig:
    where = f"[models.{name}] " if name != "default" else "[model] "
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise NodeError(f"[models]: found the name {name!r}, expected letters, digits, - and _")
    if not isinstance(table, Mapping):
        raise NodeError(f"{where}found {table!r}, expected a table")
    preset = str(table.get("algorithm", "adaptive")).replace("-", "_")
    if preset not in PRESETS:
        raise NodeError(
            f"{where}`algorithm`: found {preset!r}, expected {_nearest(preset, PRESETS)}"
        )
    own = [p for p in PRESETS[preset].parameters if p not in _MODEL]
    _check_keys(table, (*_MODEL, *own), where)
    given = {key: table[key] for key in own if key in table}
    try:
        algorithm = algorithm_named(preset, given)
    except (ValueError, TypeError, AttributeError) as error:
        raise NodeError(f"{where}{error}") from None
    hints: dict[str, Any] = {"safe": bool, "initial": str, "share": float, "sources": list[str]}
    _check_types(hints, table, where)
    for address in table.get("sources", ()):
        place = urlsplit(address)
        if place.scheme != "mqtts" and not is_loopback(f"{place.hostname}:1"):
            raise NodeError(
                f"{where}`sources`: found {address}, expected mqtts:// or a loopback address"
            )
    options = {**common, **{key: table[key] for key in ("privacy", *_NODE) if key in table}}
    _check_types({"privacy": str}, options, where)
    privacy = options.pop("privacy", None)
    if privacy is not None:
        if table.get("safe") is False or "initial" in table:
            raise NodeError(
                f"{where}`privacy` goes with `safe`, and without `initial`: the own learner, and what a file "
                "says, are not private"
            )
        try:
            algorithm = private(algorithm, privacy)
        except ValueError as error:
            raise NodeError(f"{where}{error}") from None
    elif table.get("safe", True):
        algorithm = safe(algorithm)
    _check_types(get_type_hints(NodeOptions) | {"store": str, "average": str | None}, options, "")
    if options.get("store") is not None:
        options["store"] = here / options["store"] / name
    initial = table.get("initial")
    return ModelConfig(
        algorithm,
        NodeOptions(**options),
        None if initial is None else str(here / initial),
        table.get("share"),
        tuple(table.get("sources", ())),
    )


def _check_shares(models: Mapping[str, ModelConfig]) -> None:
    """Check the shares of models: the first one answers the remaining requests."""
    shares = [model.share for model in models.values()]
    given = [share for share in shares if share is not None]
    if given and (shares[0] is not None or min(given) < 0.0 or not sum(given) <= 1.0):
        raise NodeError(
            f"`share`: found {', '.join(map(str, given))}, expected shares from 0 to 1 for all but the first "
            "model, of together 1 at most"
        )


def _check_types(hints: Mapping[str, Any], told: Mapping[str, Any], where: str) -> None:
    """Refuse values of another type than a setting has."""
    for key, value in told.items():
        if key in hints:
            try:
                msgspec.convert(value, hints[key])
            except msgspec.ValidationError as error:
                expected = str(error).partition(",")[0].lower().replace("`", "")
                raise NodeError(f"{where}`{key}`: found {value!r}, {expected}") from None


def _table(kind: Any, told: Any, name: str, here: Path) -> Any:
    """A table as a value of its class."""
    if not isinstance(told, Mapping):
        raise NodeError(f"[{name}]: found {told!r}, expected a table")
    hints = get_type_hints(kind)
    _check_keys(told, hints, f"[{name}] ")
    _check_types(hints, told, f"[{name}] ")
    given = dict(told)
    for key in ("token_file", "certificate", "key", "clients", "identity"):
        if given.get(key) is not None:
            given[key] = str(here / given[key])
    for key in ("listen", "connect"):
        if isinstance(given.get(key), list):
            given[key] = tuple(given[key])
    if isinstance(given.get("peers"), list):
        given["peers"] = tuple(given["peers"])
    return kind(**given)


def _check_keys(told: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in told:
        if key not in known:
            raise NodeError(f"{where}found `{key}`, expected {_nearest(key, known)}")


def _nearest(found: Any, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(str(found), names, 1)
    return f"`{near[0]}`" if near else f"one of {', '.join(names)}"


def host_of(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``, which may begin with ``tcp/`` or ``tls/``.

    Examples
    --------
    >>> host_of("tcp/127.0.0.1:7001"), host_of("[::1]:80")
    (('127.0.0.1', 7001), ('::1', 80))
    """
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or not host:
        raise NodeError(f"found the address {address!r}, expected HOST:PORT")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine alone."""
    host, _ = host_of(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_http(http: HttpConfig) -> None:
    for name in ("most_body", "rate", "connections"):
        value = getattr(http, name)
        if value is not None and not 0 < value < float("inf"):
            raise NodeError(f"[http] `{name}`: found {value!r}, expected a number above 0")
    if http.token_file is None and http.clients is None and not is_loopback(http.listen):
        raise NodeError(
            f"[http] `listen`: found {http.listen} without `token_file`, expected a loopback address; "
            "make a token with: ddol network token FILE"
        )
    if (http.certificate is None) != (http.key is None):
        raise NodeError("[http] `certificate` and `key` go together; give both or none")
    if http.clients is not None and http.certificate is None:
        raise NodeError("[http] `clients` needs `certificate` and `key`")


def _check_network(network: NetworkConfig) -> None:
    from ddol.node.gossip import Exchange
    from ddol.node.leaving import checked_between

    Exchange.of(network.exchange)
    checked_between(network.least)
    if isinstance(network.listen, str) or isinstance(network.connect, str):
        raise NodeError('[network] `listen` and `connect` are lists: ["tcp/127.0.0.1:7001"]')
    addresses = [*network.listen, *network.connect]
    for address in addresses:
        if "/" not in address:
            raise NodeError(f"[network]: found the address {address!r}, expected tcp/HOST:PORT")
    if network.transport.startswith("mqtt://"):
        addresses.append(network.transport)
    elif network.transport != "zenoh":
        raise NodeError(
            f"[network] `transport`: found {network.transport!r}, expected zenoh or mqtt://HOST:PORT"
        )
    foreign = [a for a in addresses if not is_loopback(a)]
    if network.identity is None and foreign:
        raise NodeError(
            f"[network] found {foreign[0]} without `identity`, expected a loopback address; messages are "
            "neither signed nor hidden: see ddol network"
        )
    if isinstance(network.peers, str) and network.peers not in ("all", "ring", "exponential"):
        raise NodeError(
            f"[network] `peers`: found {network.peers!r}, expected all, ring, exponential or names"
        )
