"""How messages travel between nodes: an interface of four calls, and what carries it out."""
