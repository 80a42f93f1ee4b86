"""Three regions that serve predictions, learn from late labels, and share what they learn."""
