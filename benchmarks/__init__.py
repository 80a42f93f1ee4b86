"""Side by side with the peers: the same data, the same pass, one run, one machine."""
