"""What agents do together: who talks with whom, with which weights, and how they average."""
