"""Models as plain linear forms: what other programs read, and what is read from them."""
