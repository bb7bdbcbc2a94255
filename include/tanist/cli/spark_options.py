"""Where a Spark job runs, as options of the commands that submit one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tanist.spark_submit.place import LOCAL, SparkPlace

_PANEL = "On a Spark cluster (docs/spark.md)"

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark's master: local[*], spark://HOST:PORT, yarn, k8s://URL.",
        show_default="local[*], this machine",
        rich_help_panel=_PANEL,
    ),
]
PropertiesOption = Annotated[
    Path | None,
    typer.Option(
        "--properties-file",
        metavar="FILE",
        help="Settings of Spark, as spark-submit takes them; secrets belong here.",
        rich_help_panel=_PANEL,
    ),
]
PythonOption = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Python of the executors, of the same version as this one; it must also exist here.",
        show_default="python3.X, found on PATH",
        rich_help_panel=_PANEL,
    ),
]
ImageOption = Annotated[
    bool,
    typer.Option(
        "--no-packages",
        help="Send no packages: the executors' Python has numpy, pyarrow, xxhash, crc32c and kafka-python.",
        rich_help_panel=_PANEL,
    ),
]
UnencryptedOption = Annotated[
    bool,
    typer.Option(
        "--allow-unencrypted",
        help="Send the clusters' logins to executors although Spark does not encrypt its connections.",
        rich_help_panel=_PANEL,
    ),
]
UiOption = Annotated[
    bool, typer.Option("--ui", help="Serve Spark's own pages while the job runs, and print their address.")
]


def place(
    master: str | None, properties: Path | None, python: str | None, *, image: bool, unencrypted: bool, ui: bool
) -> SparkPlace:
    """Where the job runs.

    Raises:
        Misconfigured: no such kind of master, or no such file.
    """
    return SparkPlace(
        master=master or LOCAL.master,
        properties=properties and properties.absolute(),
        python=python or LOCAL.python,
        image=image,
        unencrypted=unencrypted,
        ui=ui,
    )
