"""The engine that copies whole batches, byte for byte; runs of small ones as one."""
