"""`airflow.cfg`, and the environment of the components.

Secrets are in the file, never in the environment, which a process hands on to all its children.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tanist
from tanist_testkit.sandbox.airflow.home import USERS
from tanist_testkit.sandbox.credentials import write_private
from tanist_testkit.sandbox.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist_testkit.sandbox.airflow.database import Database
    from tanist_testkit.sandbox.airflow.home import Home, Remembered

MASKED: Final = ("ssl_key_pem", "basic_auth_user_info", "jaas_config")
"""Keys of connections that Airflow would show: it knows `password` and the like by itself. It compares names in which
whatever is no letter or digit has become '_'."""
_LOOPBACK: Final = (HOST, "localhost")


def url(port: int) -> str:
    """Of an Airflow at this port of this machine."""
    return f"http://{HOST}:{port}"


def write_config(home: Home, state: Remembered, database: Database) -> None:
    """Everything that the components are told; keys and passwords are made once, the rest each time."""
    if not home.keys.exists():
        write_private(home.keys, json.dumps(_new_keys()))
    if not home.passwords.exists():
        write_private(home.passwords, json.dumps({user: secrets.token_urlsafe(12) for user in USERS}))
    sections = _sections(home, state, database, json.loads(home.keys.read_text(encoding="utf-8")))
    write_private(home.config, "".join(_lines(sections)))


def environment(home: Home, inherited: Mapping[str, str]) -> dict[str, str]:
    """For every component: nothing of another Airflow, this installation first on every path, no proxy to us."""
    own = {name: value for name, value in inherited.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW_"))}
    pyspark = find_spec("pyspark")
    if pyspark and pyspark.origin:
        own |= {"SPARK_HOME": str(Path(pyspark.origin).parent)}
    direct = {name: ",".join(filter(None, (own.get(name), *_LOOPBACK))) for name in ("NO_PROXY", "no_proxy")}
    paths = {"PATH": _first(str(Path(sys.executable).parent), own.get("PATH"))}
    package = Path(tanist.__file__).parents[1]
    if package.name == "include":  # a checkout, which need not be installed
        paths["PYTHONPATH"] = _first(str(package), own.get("PYTHONPATH"))
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    return own | direct | paths | python | {"AIRFLOW_HOME": str(home.directory)}


def _first(place: str, others: str | None) -> str:
    return os.pathsep.join([place, *(part for part in (others or "").split(os.pathsep) if part and part != place)])


def _new_keys() -> dict[str, str]:
    return {
        "jwt": secrets.token_hex(48),
        "api": secrets.token_hex(32),
        "fernet": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    }


def _sections(
    home: Home, state: Remembered, database: Database, keys: Mapping[str, str]
) -> dict[str, dict[str, object]]:
    return {
        "core": {
            "dags_folder": state.spec.dags,
            "plugins_folder": state.spec.plugins,
            "load_examples": False,
            "executor": "LocalExecutor",
            "parallelism": state.spec.parallelism,
            "max_active_tasks_per_dag": state.spec.parallelism,
            "fernet_key": keys["fernet"],
            "simple_auth_manager_users": ",".join(f"{user}:{role}" for user, role in USERS.items()),
            "simple_auth_manager_passwords_file": home.passwords,
            "sensitive_var_conn_names": ",".join(MASKED),
            "execution_api_server_url": f"{url(state.port)}/execution/",
        },
        "database": {"sql_alchemy_conn": database.url("psycopg2"), "sql_alchemy_conn_async": database.url("asyncpg")},
        "logging": {"base_log_folder": home.logs},
        "api_auth": {"jwt_secret": keys["jwt"]},
        "api": {
            "host": HOST,
            "port": state.port,
            "base_url": url(state.port),
            "secret_key": keys["api"],
            "workers": 1,
            "instance_name": "Tanist sandbox",
        },
        "dag_processor": {
            "refresh_interval": 5,
            "min_file_process_interval": 20,  # a changed file is parsed at once; this is for Variables that one reads
            "parsing_processes": 1,
            "bundle_refresh_check_interval": 2,
        },
        "scheduler": {
            "scheduler_idle_sleep_time": 0.2,  # a hop between two tasks takes 0.5 s instead of 1.1
            "scheduler_heartbeat_sec": 2,
            "job_heartbeat_sec": 2,
            "trigger_timeout_check_interval": 5,
            "scheduler_health_check_threshold": 15,  # with the next line: what died with its scheduler is run again
            "orphaned_tasks_check_interval": 5,  # after 20 s at most, not after the 300 s of the default
        },
        "triggerer": {"triggerer_health_check_threshold": 15},
        "usage_data_collection": {"enabled": False},
    }


def _lines(sections: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    yield "# Written at each start. Nobody but the owner may read this.\n"
    for section, options in sections.items():
        yield f"\n[{section}]\n"
        yield from (f"{name} = {str(value).replace('%', '%%')}\n" for name, value in options.items())
