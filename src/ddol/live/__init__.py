"""The old place of `ddol.lab.live`, for this version."""
