"""The engine of mirrors with mapped offsets: batches and positions in transactions."""
