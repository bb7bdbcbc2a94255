"""Fail back: let a mirror that has failed over copy to its old source, and fail over to it. Then protect it again.

`survey` holds what the old source has and compares it with the new primary, `rescue` copies what only the old source
has to quarantine topics of the new primary, `replay` appends of that to its topics what was decided, `reverse` lets the
mirror copy what was written since (`tanist mirrors reverse`), `in_step` waits until all of it is copied, and `validate`
compares both. The steps from `open_run` on are those of `mirror_failover`: a planned failover to the old source. Then
the mirror is reversed again, so that it runs in its first direction.

- Trigger it with the mirror, the present primary and the cluster to fail back to.
- Up to four questions go to the approvers: what becomes of rescued records, the reversal, the failover, the next
  reversal. Each approval is written to Kafka through the connection `<cluster>_approver` of the mirror's destination at
  that time. A reversal that was approved with its failover (`reverse` of `mirror_failover`, `--reverse`) and is not
  done is completed without a question.
- A fetcher of the old source must run: it copies.
- **If records were rescued, `approve_decision` asks what becomes of them**: classes in `replay` are appended to their
  topics, all others stay in quarantine; nothing is deleted. With access rules `replay` needs the connection
  `<primary>_replay`, whose login may write to the topics. With `accept: [TAIL_UNDECIDED]` nobody is asked: the run
  reverses the mirror, and stops before the failover, until `tanist failback accept` has accepted it.
- **If anything fails, trigger the DAG again with the same parameters.** What is done is skipped: after the switch it
  asks for the last reversal only, and if that is done as well it changes nothing.
"""

from datetime import timedelta

from airflow.sdk import DAG, chain, task, teardown

from tanist.airflow import failback, failback_decision, failback_gates, failover
from tanist.airflow.failback import before_the_switch
from tanist.airflow.validation import AFTERWARDS
from tanist.airflow.verdict import NEXT_GATE

BEFORE_THE_SWITCH = (failover.open_run, failover.undo, failover.observe, failover.plan)

with DAG(
    "mirror_failback",
    description="Copy a mirror back to its old source, fail over to it, and reverse it again",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1000,
    params=failback.PARAMS | {"validate": AFTERWARDS},
    tags=["tanist", "kafka"],
    default_args={"owner": "tanist", "retries": 5, "retry_delay": timedelta(seconds=5)},
) as dag:
    chain(
        task(multiple_outputs=False)(before_the_switch(failback.survey))(),
        task(multiple_outputs=False)(before_the_switch(failback.rescue))(),
        failback_decision.DecisionGate(task_id="approve_decision"),
        task(multiple_outputs=False)(before_the_switch(failback_decision.replay))(),
        failback_gates.ReversalGate(task_id="approve_reversal"),
        task(multiple_outputs=False)(before_the_switch(failback.reverse))(),
        task(multiple_outputs=False)(before_the_switch(failback.in_step))(),
        failback.ValidateInStep(task_id=failover.VALIDATE, level="validate", retries=1),
        *(task(multiple_outputs=False)(before_the_switch(each))() for each in BEFORE_THE_SWITCH),
        failback_gates.SwitchGate(task_id=failover.GATE),
        *(
            task(task_id=name, doc_md=title, multiple_outputs=False)(before_the_switch(failover.step))(name)
            for name, title in failover.STEPS
        ),
        failback_gates.ReversalGate(task_id=NEXT_GATE, again=True),
        task(multiple_outputs=False)(failback.reverse_again)(),
        # Runs whatever became of the others; its failure is the run's: a run is green only where the switch is done.
        teardown(task(multiple_outputs=False)(failover.report))().as_teardown(on_failure_fail_dagrun=True),
    )
