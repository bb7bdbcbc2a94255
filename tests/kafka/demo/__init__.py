"""The demo's checker is checked, and the demo itself."""
