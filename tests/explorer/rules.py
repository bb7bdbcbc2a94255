"""What the model takes for granted of brokers: each rule with the test that holds real brokers to it.

Every call that a story makes of a cluster is one of a rule here; the test runs over the model and over a real broker.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """`calls`: of the model, that rest on it. `contract`: in `tests/contracts`."""

    what: str
    calls: tuple[str, ...]
    contract: str


_PORTS: Final = "test_failover_ports.py::"
RULES: Final = (
    Rule(
        "who opens a mirror's state fences who had it open", ("state.open", "state.append"),
        "test_state_store.py::test_of_two_operators_the_older_is_fenced_not_overwritten",
    ),
    Rule(
        "who opens it decides on the last word of who was fenced", ("state.open",),
        "test_state_store.py::test_an_operator_decides_on_the_last_word_of_the_one_it_fenced",
    ),
    Rule(
        "an operator has one state topic open at a time", ("state.open",),
        "test_state_store.py::test_an_operator_writes_to_one_topic_at_a_time",
    ),
    Rule("a transaction is seen whole", ("state.append",), "test_state_store.py::test_a_transaction_is_seen_whole"),
    Rule(
        "a zombie's late word is not the last", ("state.append",),
        "test_state_store.py::test_a_zombies_late_word_is_not_the_last",
    ),
    Rule(
        "who has caught up misses nothing", ("state.read", "state.catch_up", "worker.state"),
        "test_state_store.py::test_a_reader_that_has_caught_up_misses_nothing",
    ),
    Rule(
        "behind a barrier no old writer gets in",
        ("producer_fencing.fence_data_producers", "producer_fencing.fence_producers", "producer_fencing.proof"),
        _PORTS + "test_behind_a_barrier_no_old_writer_gets_in_and_asking_writes_nothing",
    ),
    Rule(
        "the end of what was copied is told through fences and gap markers", ("producer_fencing.copied_ends",),
        _PORTS + "test_the_end_of_what_was_copied_is_told_through_fences_and_gap_markers",
    ),
    Rule(
        "a reserve is written to its end and no further", ("producer_fencing.reserve",),
        _PORTS + "test_a_reserve_is_written_to_its_end_and_no_further",
    ),
    Rule(
        "who begins a transactional id fences who had it, and aborts what that one left open",
        ("producer_fencing.fence_transactional_ids", "worker.begin", "worker.append", "worker.commit"),
        _PORTS + "test_a_fence_of_transactional_ids_is_proved_by_the_epoch_that_was_used",
    ),
    Rule(
        "a topic made anew has no barrier, and the rules of the earlier one",
        ("producer_fencing.proof", "opening.shut_out"),
        _PORTS + "test_a_topic_that_is_made_anew_has_no_barrier_and_still_the_rules_of_the_earlier_one",
    ),
    Rule(
        "a compacted topic keeps its barrier by repeating a record once",
        ("producer_fencing.compacted", "producer_fencing.keep"),
        _PORTS + "test_a_barrier_of_a_compacted_topic_is_kept_by_repeating_the_last_record_once",
    ),
    Rule(
        "a fence keeps producers off, and lifting it is exact",
        ("fencing.snapshot", "fencing.apply", "fencing.fence_status", "fencing.lift", "fencing.has_authorizer"),
        _PORTS + "test_a_fence_keeps_producers_off_and_lifting_it_is_exact",
    ),
    Rule(
        "a fence that was there before stays", ("fencing.snapshot", "fencing.lift"),
        _PORTS + "test_a_rule_that_was_there_before_stays",
    ),
    Rule(
        "opening takes WRITE from the mirror and from nobody else",
        ("opening.open", "opening.shut_out", "opening.principal", "opening.has_authorizer"),
        _PORTS + "test_opening_takes_write_from_the_mirror_and_from_nobody_else",
    ),
    Rule(
        "a topic is open once its rules are there", ("opening.is_open",),
        _PORTS + "test_a_topic_is_open_once_its_rules_are_there_and_the_mirror_is_given_none",
    ),
    Rule("who else may write is told", ("acls.read",), _PORTS + "test_who_else_may_write_is_told_of_each_topic"),
    Rule(
        "ACLs of a topic are reported, and what was denied by name is undone exactly",
        ("acls.read", "opening.deny"),
        _PORTS + "test_what_was_denied_by_name_is_undone_exactly",
    ),
    Rule(
        "principals that may alter the cluster are reported", ("acls.read",),
        _PORTS + "test_who_may_alter_the_cluster_is_reported",
    ),
    Rule(
        "a canary is seen by no reader", ("opening.canary",),
        _PORTS + "test_a_canary_spends_offsets_that_no_reader_ever_sees",
    ),
    Rule(
        "replicas in sync are told", ("replicas.in_sync",),
        _PORTS + "test_replicas_in_sync_are_told_with_what_is_needed",
    ),
    Rule(
        "a cluster has one id, topics their sizes", ("replicas.cluster", "topics.cluster_id"),
        _PORTS + "test_a_cluster_tells_who_it_is_and_how_large_topics_are",
    ),
    Rule(
        "coordinators name open transactions, and their producers are remembered",
        ("replicas.named_in_transactions", "replicas.transactional"),
        _PORTS + "test_a_transaction_is_told_before_it_has_written_anything_and_not_once_it_has_ended",
    ),
    Rule(
        "approvals are in order, by who is logged in, timed by the broker",
        ("approvals.exists", "approvals.append", "approvals.all", "approvals.brokers_time"),
        _PORTS + "test_an_approval_is_written_by_who_is_logged_in_and_timed_by_the_broker",
    ),
    Rule(
        "a group with members is not moved", ("positions.commit", "positions.groups"),
        "test_positions.py::test_a_group_with_members_is_counted_and_keeps_its_positions_to_itself",
    ),
    Rule(
        "of two that move groups the later one alone commits", ("positions.take_over", "positions.commit"),
        "test_positions.py::test_a_command_that_another_one_has_followed_commits_nothing",
    ),
    Rule(
        "a position that has moved since it was read stays", ("positions.committed", "positions.commit"),
        "test_positions.py::test_a_position_that_has_moved_since_stays",
    ),
    Rule(
        "what is not confirmed never becomes visible", ("positions.commit",),
        "test_positions.py::test_what_is_not_confirmed_never_becomes_visible",
    ),
    Rule(
        "ends are those of now", ("logs.ends",),
        "test_logs.py::test_an_open_transaction_holds_the_last_stable_offset_and_deleting_moves_the_start",
    ),
    Rule("the true end is the log's", ("logs.true_ends",), "test_logs.py::test_the_true_end_is_that_of_the_log"),
    Rule(
        "markers are told from records", ("logs.only_control",),
        "test_logs.py::test_a_span_of_markers_alone_is_told_from_one_with_records",
    ),
    Rule(
        "a batch says who wrote it", ("logs.producers", "logs.leader_epochs"),
        "test_logs.py::test_who_wrote_a_batch_is_read_from_its_header_however_large_it_is",
    ),
    Rule(
        "no producer id is given twice", ("logs.new_producer_id",),
        "test_logs.py::test_no_producer_id_is_given_twice",
    ),
    Rule("a dead cluster tells nothing", ("logs.ends",), "test_logs.py::test_of_a_dead_cluster_nothing_is_told"),
    Rule(
        "a topic is there once it was made", ("topics.create", "topics.describe", "topics.names"),
        "test_topics.py::test_a_created_topic_is_there_at_once",
    ),
    Rule("a topic only grows", ("topics.grow",), "test_topics.py::test_a_topic_only_grows"),
    Rule(
        "partitions are counted", ("topics.partitions",),
        "test_topics.py::test_partitions_are_counted_and_what_is_not_there_is_no_none",
    ),
    Rule(
        "altering one config leaves the others", ("topics.alter_configs",),
        "test_topics.py::test_altering_one_config_leaves_the_others",
    ),
    Rule(
        "a topic that cannot be altered holds up no other", ("topics.alter_configs",),
        "test_topics.py::test_a_topic_that_cannot_be_altered_holds_up_no_other",
    ),
    Rule(
        "rights are told one by one", ("access.check",),
        "test_access.py::test_each_right_is_told_by_itself",
    ),
    Rule(
        "who may write is not told to everybody", ("acls.read",),
        "test_access.py::test_who_may_write_is_not_told_to_everybody",
    ),
    Rule(
        "ACLs of any type are created and deleted exactly", ("acls.read", "acls.create", "acls.delete"),
        "test_access.py::test_acls_of_any_type_are_created_and_deleted_exactly",
    ),
    Rule(
        "a login is told with whether rules bind it", ("access.login",),
        "test_access.py::test_a_login_is_told_with_whether_rules_bind_it",
    ),
    Rule(
        "what is set for all brokers applies to each", ("configs.set_for_all_brokers", "configs.broker"),
        "test_configs.py::test_what_is_set_for_all_brokers_applies_to_each",
    ),
    Rule(
        "each broker reports which configs of its authorizer are set", ("configs.each_broker",),
        "test_configs.py::test_each_broker_tells_which_configs_of_the_authorizer_are_set_and_hides_their_values",
    ),
    Rule(
        "what was denied by name is undone exactly", ("acls.read", "opening.deny", "opening.undeny"),
        _PORTS + "test_what_was_denied_by_name_is_undone_exactly",
    ),
    Rule(
        "what was given is taken back exactly", ("opening.give", "opening.take_back"),
        _PORTS + "test_what_was_given_is_taken_back_exactly",
    ),
)  # fmt: skip


class RuleOfTails(NamedTuple):
    """`calls`: of the model. `real`: the test that holds real brokers to it; `model`: the one over the model."""

    what: str
    calls: tuple[str, ...]
    real: str
    model: str


_OWN: Final = "tests/kafka/failover/own/"
_MODEL: Final = "tests/explorer/test_tails.py::"
ON_THE_WAY_BACK: Final = (
    RuleOfTails(
        "logs are compared up to where they part", ("tails.common_ends", "tails.counts", "tails.transactions"),
        _OWN + "test_survey.py::test_an_old_source_is_compared_with_what_has_taken_over",
        _MODEL + "test_logs_are_compared_up_to_where_they_part",
    ),
    RuleOfTails(
        "a record of a tail is copied once, whoever is late",
        (
            "quarantine.create", "quarantine.ends", "quarantine.new_producer_id", "quarantine.copy",
            "quarantine.append", "quarantine.at_source", "quarantine.rescued",
        ),
        "tests/kafka/failover/test_tails.py::test_records_that_were_not_copied_are_rescued_and_replayed",
        _MODEL + "test_a_record_of_a_tail_is_copied_once_whoever_is_late",
    ),
    RuleOfTails(
        "a late batch of a replay is refused",
        (
            "replays.may_write", "replays.rescued", "replays.end", "replays.new_producer_id", "replays.last_of_keys",
            "replays.replayed", "replays.append",
        ),
        _OWN + "test_replay.py::test_only_what_was_chosen_is_replayed_and_once_whatever_is_killed",
        _MODEL + "test_a_late_batch_of_a_replay_is_refused",
    ),
    RuleOfTails(
        "an aborted transaction leaves a marker", ("transactions.on", "transactions.abort"),
        _OWN + "test_open_transactions.py::"
        "test_open_transactions_of_a_returned_source_are_named_and_aborted_by_approval",
        _MODEL + "test_an_aborted_transaction_leaves_a_marker",
    ),
    RuleOfTails(
        "exactly the topic with an id is deleted", ("deletion.delete", "sizes.sizes"),
        _OWN + "test_recreate.py::test_topics_that_cannot_return_are_deleted_and_copied_again_whatever_is_killed",
        _MODEL + "test_exactly_the_topic_with_an_id_is_deleted",
    ),
)  # fmt: skip
"""The ports of the way back. Their adapters need two clusters, so the tests of both differ; their names are checked."""
