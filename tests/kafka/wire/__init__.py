"""Tests of sockets, against real brokers and against liars."""
