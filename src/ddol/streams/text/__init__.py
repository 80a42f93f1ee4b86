"""Examples as text, one on a line, parsed by compiled code."""
