"""Tests of bytes: no broker, no socket."""
