"""`tanist validate` as people use it: clusters with logins, a fetcher that copies, a spark-submit of its own."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism, Secret
from tanist.domain.errors import CouldNotTell, Misconfigured, ProcessFailed, TanistError, TimedOut
from tanist.domain.names import MirrorName, MirrorPartition, ProducerId
from tanist.domain.offset_map import OffsetRange
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.domain.validation.job import Level, PartitionRequest, ValidationJob
from tanist.kafka.protocol.stored import plain, reader
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.clock import Deadline
from tanist.spark.ends import fix
from tanist.spark_submit import submit as submitting
from tanist.spark_submit.submission import Submission
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

SASL = Sasl(mechanism=SaslMechanism.PLAIN, username="u", password=Secret("hunter2"))
ENDPOINT = Endpoint(name="east", bootstrap=(Address("127.0.0.1", 1),), sasl=SASL)


def job() -> ValidationJob:
    run = OffsetRange(source=5, destination=7)  # type: ignore[arg-type]  # offsets of a test
    return ValidationJob(
        run="r1",
        mirror=MirrorName("m"),
        level=Level.BATCHES,
        source=ENDPOINT,
        destination=replace(ENDPOINT, name="west"),
        data_id=ProducerId(1),
        partitions=(PartitionRequest(partition=MirrorPartition("t", 0), runs=(run,)),),
    )


def test_a_job_comes_out_of_its_file_as_it_went_in(tmp_path: Path) -> None:
    """Secrets too; the file is its owner's alone, and nothing secret is in the command."""
    submission = Submission(application="data_validation.py", job=job(), folder=tmp_path)
    file = tmp_path / "job.json"
    submission.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert reader(ValidationJob)(json.loads(file.read_text())) == job()
    assert "hunter2" not in " ".join(submission.command(file))
    with pytest.raises(TypeError):
        plain(job())


def test_a_job_that_takes_too_long_is_ended_with_all_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its children too: they are a session of their own."""
    submission = Submission(application="data_validation.py", job=job(), folder=tmp_path / "results")
    begun = tmp_path / "begun"
    endless = ["sh", "-c", f"sleep 1000 & echo $! > {begun}.part; mv {begun}.part {begun}; wait"]
    monkeypatch.setattr(Submission, "command", lambda *_: endless)
    reported: list[str] = []
    with pytest.raises(TimedOut, match="did not finish in time"):
        submitting.submit(submission, OnceBegun(0.0, begun), reported.append)
    assert reported == ["Spark starts"]
    until(lambda: not runs(int(begun.read_text())), 50)


@dataclass(frozen=True)
class OnceBegun(Deadline):
    """Over when the job has written `file`: a busy machine may take seconds until then."""

    file: Path

    def left(self, now: float) -> float:
        until(self.file.exists, 50)
        return super().left(now)


def runs(pid: int) -> bool:
    """A dead one whose parent has not asked for it yet does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("file", "left", "error"),
    [
        ("error.json", {"name": "X", "reason": "bad", "exit_code": 2}, Misconfigured),
        ("error.json", {"name": "X", "reason": "silent", "exit_code": 3}, CouldNotTell),
        ("result.json", {"run": "another"}, CouldNotTell),
        ("nothing.json", {}, ProcessFailed),
    ],
)
def test_an_exit_code_is_believed_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, left: dict[str, object], error: type[TanistError]
) -> None:
    """What a job has left counts, and only what this one has left; a result beside an error was not published."""
    submission = Submission(application="data_validation.py", job=job(), folder=tmp_path)
    own = f"echo '{json.dumps({'run': job().run})}' > {tmp_path / 'result.json'}; "
    leaves = ["sh", "-c", (own if file == "error.json" else "") + f"echo '{json.dumps(left)}' > {tmp_path / file}"]
    monkeypatch.setattr(Submission, "command", lambda *_: leaves)
    with pytest.raises(error):
        submitting.run(submission, SystemClock().deadline(5), print)
    leaves[-1] = own
    assert submitting.run(submission, SystemClock().deadline(5), print) == {"run": job().run}


def test_an_error_of_the_job_is_named_once(tmp_path: Path) -> None:
    """It was INVALID_CONFIG: INVALID_CONFIG."""
    submission = Submission(application="data_validation.py", job=job(), folder=tmp_path)
    for name, told in (
        ("INVALID_CONFIG", "INVALID_CONFIG: bad ("),
        ("PORT_TAKEN", "INVALID_CONFIG: PORT_TAKEN: bad ("),
    ):
        (tmp_path / "error.json").write_text(json.dumps({"name": name, "reason": "bad", "exit_code": 2}))
        with pytest.raises(Misconfigured) as raised:
            submitting.result_of(submission)
        assert str(raised.value).startswith(told)


def test_a_folder_that_cannot_be_written_to_is_bad_input(tmp_path: Path) -> None:
    """It is told before anything is started."""
    (tmp_path / "file").write_text("")
    submission = Submission(application="data_validation.py", job=job(), folder=tmp_path / "file")
    with pytest.raises(Misconfigured, match="cannot be written"):
        submitting.submit(submission, SystemClock().deadline(5), print)


@pytest.mark.parametrize("theirs", ['{"total": 3}', "3", "no JSON"])
def test_a_folder_with_a_result_of_somebody_else_keeps_it(tmp_path: Path, theirs: str) -> None:
    """`--report .` removed it."""
    (tmp_path / "result.json").write_text(theirs)
    submission = Submission(application="data_validation.py", job=job(), folder=tmp_path)
    with pytest.raises(Misconfigured, match="Tanist has not written"):
        submitting.submit(submission, SystemClock().deadline(5), print)
    assert (tmp_path / "result.json").read_text() == theirs


@pytest.mark.long  # the demo and tests/airflow/test_mirror_validation.py validate, too
@pytest.mark.usefixtures("hasty_java")
def test_a_mirror_is_validated_from_the_command_line(pair: Pair) -> None:
    """A promoted topic is equal, whoever writes to it by now; a mirrored one that somebody else wrote to is not."""
    pair.worker()
    pair.mirror("dr", "orders", "bills")
    plan = pair.approved("dr", "--topic", "orders")
    pair.tanist("failover", "run", "dr", "--plan", plan, "--fence-proof", "1s")
    assert pair.west.writes("orders", range(100, 110))
    assert pair.west.writes("bills", range(2), user="mirror")
    assert_a_job_from_before_the_failover_is_unknown(pair)
    file = pair.home / "spark.properties"
    file.write_text(f"spark.hadoop.fs.viewfs.mounttable.ours.link./reports {pair.home.as_uri()}/mounted\n")
    asked = ("validate", "dr", "--topic", "orders", "--topic", "bills", "--level", "records", "--json")
    found = pair.tanist(*asked, "--report", "viewfs://ours/reports/dr", "--properties-file", str(file), expected=1)
    assert (found.item["verdict"], found.item["level"]) == ("DIFFERENT", "records"), found
    of = {(each["topic"], each["partition"]): each for each in found.item["partitions"]}
    assert [of["orders", n]["verdict"] for n in range(2)] == ["EQUAL"] * 2
    assert [of["orders", n]["destination"]["records"] for n in range(2)] == [5, 5]
    assert [of["bills", n]["extra"] for n in range(2)] == [1, 1]
    assert "records: 20 offsets of the source, 22 of the copy" in found.err
    assert "bills-0: extra at offset 5 of the copy" in found.err
    folder = pair.home / "validation" / "dr"
    assert (folder / "report.html").read_text().count("DIFFERENT") >= 2
    assert "viewfs://ours/reports/dr/report.html" in found.err
    for name in ("result.json", "report.html"):
        assert (pair.home / "mounted" / "dr" / name).read_bytes() == (folder / name).read_bytes()
    assert "TOPIC_NOT_IN_MIRROR" in pair.tanist("validate", "dr", "--topic", "nosuch", expected=2).err
    secrets = {side.cluster.password_file("mirror").read_text() for side in (pair.east, pair.west)}
    for file in folder.iterdir():
        assert not any(secret in file.read_text() for secret in secrets), file


def assert_a_job_from_before_the_failover_is_unknown(pair: Pair) -> None:
    """What clients have written since then would count as extra."""
    orders, bills = (PartitionRequest(partition=MirrorPartition(topic, 0)) for topic in ("orders", "bills"))
    source, destination = (side.cluster.endpoint() for side in (pair.east, pair.west))
    made = replace(job(), mirror=MirrorName("dr"), source=source, destination=destination, partitions=(orders, bills))
    found = fix(replace(made, settle_seconds=0.0))
    assert "was failed over meanwhile" in str(found[orders.partition])
    assert isinstance(found[bills.partition], ComparisonBounds)


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("validate", "nosuch"), 2, "UNKNOWN_MIRROR"),
        (("validate", "nosuch", "--topic", "("), 2, "INVALID_CONFIG"),
        (("validate", "bad name"), 2, "INVALID_MIRROR_NAME"),
        (("validate", "nosuch", "--level", "deep"), 2, "INVALID_USAGE"),
    ],
)
def test_bad_input_is_told_before_a_jvm_is_started(
    pair: Pair, arguments: tuple[str, ...], code: int, error: str
) -> None:
    """One line, and the exit code of every command."""
    answer = pair.tanist(*arguments, expected=code)
    assert error in answer.err
    assert "Spark starts" not in answer.err
