"""Streams over other streams: changed, shortened, shuffled, joined, or read by all cores."""
