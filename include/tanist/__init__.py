"""Tanist keeps a warm Apache Kafka cluster ready to take over: mirrors, exact positions, approved failover."""

if __name__ != "tanist":
    raise ImportError(
        f"this package is `tanist`, not `{__name__}`: a second name would make a second copy of every enum "
        "(put include/ on the path, or install the project)"
    )

__version__ = "0.1.0"
