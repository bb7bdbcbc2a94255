"""Bytes, sans-IO: record batches, checksums, the frames of the hot path, markers, stored records, error codes."""
