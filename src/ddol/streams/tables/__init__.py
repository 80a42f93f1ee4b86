"""Examples as tables: data frames, Parquet, NumPy's files."""
