"""Where a Spark job runs, as options of the commands that submit one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import typer

from tanist.domain.errors import Misconfigured
from tanist.spark_submit.place import LOCAL, DeployMode, SparkPlace

if TYPE_CHECKING:
    from collections.abc import Callable

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""A scheme has two letters at least, unlike a drive."""
_HERE: Final = frozenset({"", "localhost"})
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
DeployModeOption = Annotated[
    DeployMode,
    typer.Option(
        "--deploy-mode",
        help="Where Spark's driver runs: client, where this command runs. cluster is refused, with the reason.",
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


class Results(NamedTuple):
    """Where the results of a job go: `folder`, of this machine, and `uri`, of any file system; empty: none."""

    folder: Path
    uri: str

    @property
    def shown(self) -> str:
        """What the user has asked for."""
        return self.uri or str(self.folder)


def results_in(report: str | None, default: Path) -> Results:
    """Where `--report` says: a path, or a URI. Those of other file systems are in `default`, too, with the job's log.

    Raises:
        Misconfigured: a URI with the scheme `file` that is not of this machine.
    """
    if not report or not _URI.match(report):
        return Results(Path(report) if report else default, "")
    uri = urlsplit(report)
    if uri.scheme != "file":
        return Results(default, report.rstrip("/"))
    if uri.netloc not in _HERE:
        raise Misconfigured(f"--report {report}: a file: URI names a folder of this machine, as in file:///srv/reports")
    return Results(Path(unquote(uri.path)), "")


def on_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator of commands with a parameter `where`, a `SparkPlace`: adds the options that say it.

    Goes below `asking`. Raises Misconfigured, as `SparkPlace` does, before the command does anything.
    """
    own = inspect.signature(command, eval_str=True).parameters
    options = inspect.signature(_place, eval_str=True).parameters

    def run(now: Any, **given: Any) -> None:
        where = _place(**{name: given.pop(name) for name in options})
        command(now, where=where, **given)

    whole = cast("Any", run)
    session, *others = (parameter for name, parameter in own.items() if name != "where")
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*others, *options.values())]
    whole.__signature__ = inspect.Signature([session, *keywords])
    whole.__name__, whole.__doc__ = command.__name__, command.__doc__
    return run


def _place(
    *,
    master: MasterOption = None,
    deploy_mode: DeployModeOption = LOCAL.deploy_mode,
    properties_file: PropertiesOption = None,
    python: PythonOption = None,
    no_packages: ImageOption = False,
    allow_unencrypted: UnencryptedOption = False,
    ui: UiOption = False,
) -> SparkPlace:
    return SparkPlace(
        master=master or LOCAL.master,
        deploy_mode=deploy_mode,
        properties=properties_file and properties_file.absolute(),
        python=python or LOCAL.python,
        image=no_packages,
        unencrypted=allow_unencrypted,
        ui=ui,
    )
