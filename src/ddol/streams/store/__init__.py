"""Where bytes are: files on disk or at an address, compressed or not, in chunks of whole lines."""
