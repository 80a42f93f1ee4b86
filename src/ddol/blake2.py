"""The hash function of checksums and digests.

`hashlib` has it, too, and loads OpenSSL for others that nobody here asks for.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b"]
