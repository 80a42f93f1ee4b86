"""What columns, labels and sites are called, and how they become features and labels."""
