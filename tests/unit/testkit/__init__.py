"""The tests of testkit."""
