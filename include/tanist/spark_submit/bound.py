"""`python -m tanist.spark_submit.bound PARENT COMMAND...` becomes COMMAND, which the kernel kills (Linux) with PARENT.

spark-submit becomes the JVM in the very same process. With the JVM ends the job's Python (`tanist.spark.main`), and
with the pipe to the JVM end its workers.
"""

from __future__ import annotations

import os
import sys

from tanist.kafka.wire.parent import bind_to


def main() -> None:
    """Does not return."""
    bind_to(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # the shell is the command


if __name__ == "__main__":
    main()
