"""What the help pages list: the names in the registries, as they are when somebody reads them."""

from __future__ import annotations

from ddol.engines.kinds import ENGINES
from ddol.presets import PRESETS
from ddol.streams.formats import FORMATS
from ddol.update.losses import LOSSES, zero_one


def algorithms() -> list[str]:
    """Names of the presets."""
    return [name.replace("_", "-") for name in PRESETS]


def losses() -> list[str]:
    """Names of the losses, without that of the experts, which nobody chooses."""
    return [name.replace("_", "-") for name in LOSSES if name != zero_one.name]


def engines() -> list[str]:
    """Names of the engines."""
    return list(ENGINES)


def formats() -> list[str]:
    """Names of the file formats."""
    return list(FORMATS)
