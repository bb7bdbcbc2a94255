"""Sockets: connections (TCP, TLS, SASL), leaders, requests, and the copy path without copies."""
