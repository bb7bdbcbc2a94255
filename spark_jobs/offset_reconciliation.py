"""spark-submit spark_jobs/offset_reconciliation.py --job FILE --folder DIR: `tanist reconcile` as a job."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tanist.spark.main import reconciliation


def main() -> int:
    """0 done, 2 bad input, 3 something could not be told, 70 a bug of ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", type=Path, required=True, help="what to reconcile; it holds secrets: gone once read")
    parser.add_argument("--folder", type=Path, required=True, help="where result.json and runs.parquet go")
    parser.add_argument(
        "--report", default="", metavar="URI", help="where they go, too: hdfs:, s3a:, as Spark is set up"
    )
    asked = parser.parse_args()
    return reconciliation(asked.job, asked.folder, asked.report)


if __name__ == "__main__":
    sys.exit(main())
