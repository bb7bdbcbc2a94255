"""One writer and one reader of logs, for whoever has to compare two clusters: ordinary clients only."""
