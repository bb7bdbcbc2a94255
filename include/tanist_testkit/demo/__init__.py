"""The whole story on a sandbox, ending in a table of promises."""
