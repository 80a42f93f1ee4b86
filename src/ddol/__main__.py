"""``python -m ddol`` and the command ``ddol``."""

from __future__ import annotations

from ddol.cli.app import app


def main() -> None:
    """Run the command line; the exit code is the process's."""
    app(prog_name="ddol")


if __name__ == "__main__":
    main()
