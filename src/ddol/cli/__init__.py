"""The command line: ``ddol train``, ``ddol predict``, ``ddol inspect`` and the rest."""
