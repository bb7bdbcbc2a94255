"""The engine that copies whole batches, byte for byte."""
