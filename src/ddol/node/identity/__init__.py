"""Who takes part in a network: certificates of a private authority, signed messages, access control."""
