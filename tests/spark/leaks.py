"""Where a secret could be seen while a job runs on a Spark cluster, and whether it is."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tanist_testkit.sandbox.spark import SparkCluster
    from tests.kafka.failover.conftest import Pair


def commands() -> dict[int, str]:
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            found[int(each.name)] = (each / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
    return found


def pages(*starts: str) -> dict[str, str]:
    """Every page that can be reached from `starts`, on the same servers, and what Spark's REST interface says."""
    found: dict[str, str] = {}
    ahead = list(starts)
    while ahead:
        address = ahead.pop()
        if address in found or len(found) > 200:
            continue
        try:
            with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310  # of our own cluster
                found[address] = answer.read().decode(errors="replace")
        except OSError:
            found[address] = ""
            continue
        server = re.match(r"https?://[^/]+", address)
        assert server
        links = re.findall(r"""href=["']([^"'#]+)""", found[address])
        ahead += [
            link if "://" in link else server[0] + "/" + link.lstrip("/")
            for link in links
            if not re.search(r"/static/|[.]sort=|/kill/", link)
        ]
        ahead = [link.replace("&amp;", "&") for link in ahead if link.startswith(server[0]) or link in starts]
    return found


def secrets_of(pair: Pair, cluster: SparkCluster) -> dict[str, str]:
    """What nobody may find."""
    logins = {
        side.cluster.spec.name: side.cluster.password_file("mirror").read_text() for side in (pair.east, pair.west)
    }
    (shared,) = re.findall(r"spark\.authenticate\.secret (\S+)", cluster.properties.read_text())
    return logins | {"spark": shared}


def leaks(secrets: dict[str, str], said: dict[str, str]) -> list[str]:
    return [f"{name} in {where}" for where, text in said.items() for name, secret in secrets.items() if secret in text]


def files(*folders: Path) -> dict[str, str]:
    return {
        str(file): file.read_bytes().decode("latin-1")
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and file.suffix not in {".so", ".zip"}
    }
