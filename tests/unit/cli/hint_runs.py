# ruff: noqa: E501 - a hint is one line
"""Which test types the command of which hint; a hint with a command that is in no list fails.

Texts are as they stand in the code, with {} for what is filled in. Hints without a service are
cases of ``e2e/test_hint_commands.py``.
"""

from __future__ import annotations

RUN_BY = {
    "Read it into one: rowfall load 'kafka://{}/{}' --table t": "e2e/test_to_kafka.py::test_a_topic_is_read_to_be_asked",
    "Read and count them: rowfall load '{}' --table t": "e2e/test_to_kafka.py::test_a_topic_is_read_to_be_asked",
    "rowfall clean removes what is left of it; then run the same command again.": "e2e/test_to_iceberg.py::test_clean_removes_what_was_written_and_not_committed",
    "Load something into it first: rowfall load FILE --to {}": "e2e/test_to_iceberg.py::test_commands_on_the_target",
    "Name it: --to {}": "e2e/test_to_kafka.py::test_avro_that_cannot_be_written",
    "Name it anew: --rename {}": "e2e/test_to_kafka.py::test_avro_that_cannot_be_written",
    "'rowfall lab status' shows it, 'rowfall lab down' ends it.": "e2e/test_lab.py::test_a_running_lab_is_not_started_again",
    "'rowfall lab up' makes one; --folder says where it is.": "e2e/test_lab.py::test_from_up_to_down",
    "Texts of the table are UTF-8, and a column of the type binary takes any bytes: make one with another tool (of text files: --encoding binary), or leave the column out with --skip {}.": "e2e/test_to_iceberg.py::test_texts_are_utf8",
    "--skip {}": "e2e/test_lakes.py::test_every_type_arrives_unchanged",
    "An administrator can run: GRANT {} TO {}": "e2e/test_server_refuses.py::test_a_missing_right_is_named_before_rows_are_read",
    "Compare the numbers of rows, then run the same command with --loaded all (it holds {}: only the rest is loaded){} or --loaded none (it does not: all files are loaded into it).": "faults/test_set_back.py::test_a_loaded_copy_takes_the_place",
    "Leave out --shards and --replicas, choose another --folder, or remove this one with 'rowfall lab down --remove'.": "e2e/test_lab.py::test_from_up_to_down",
    "Load what is behind it with --from {}:{}.": "e2e/test_kafka.py::test_a_poison_message_is_named_and_passed_by",
    "Load what was there before it with --snapshot {}, then run this command again.": "e2e/test_lakes.py::test_a_delta_table_lands_once_through_growth_and_compaction",
    "Load up to {} with --snapshot, and from {} on with --since; or the whole table with --replace.": "e2e/test_lakes.py::test_an_iceberg_table_lands_once_and_what_is_added_later_too",
    "Load it with --widen {}": "e2e/test_columns.py::test_the_command_of_a_hint_works",
    "{}, or leave bad rows out with --max-errors N.": "e2e/test_columns.py::test_the_command_of_a_hint_works",
    "Load it as JSON with --widen {}, or all files into a new table with --table NAME {}; {} there keeps the text.": "e2e/test_hints.py::test_a_json_column_of_any_name",
    "Convert it: iconv -f {} -t utf-8 FILE | rowfall load -": "e2e/test_hints.py::test_an_encoding_that_is_not_read",
    "Files to write end in .csv, .tsv, .json, .parquet, .orc, .arrow, .avro or .native, also packed as in .csv.gz; of others --to-format names the format. A folder of that name: --to {}": "e2e/test_hints.py::test_targets_that_look_like_something_else",
    "A server: --to {}. ": "e2e/test_server_refuses.py::test_addresses",
    "Take --method {}, or leave it out.": "e2e/test_cluster_sharding_keys.py::test_reading_skips_the_other_shards",
    "Leave out --decoder always; rowfall install-decoder puts it into a server.": "e2e/test_inside.py::test_install_and_load",
    "Set {}, or give --ask-password.": "e2e/test_server.py::test_a_password_that_is_asked_for",
    "{} Or run rowfall clean, which drops what this load has gathered, and then the same command again.": "e2e/test_server.py::test_clean_of_a_folder",
    "{} Or give the rows of this attempt up, so that their files are loaded again: rowfall forget {}.": "faults/test_altered.py::test_rows_that_cannot_follow_are_given_up",
    "Check whether the target holds them; after rowfall forget the load's files are loaded again.": "e2e/test_server.py::test_forget_then_load_again",
    "Run the query again when the load has ended; rowfall status shows it.": "e2e/test_load.py::test_a_running_load_can_be_looked_at",
    " --folder {}": "e2e/test_lab.py::test_from_up_to_down",
    "  rowfall load ... --to '{}'": "e2e/test_lab.py::test_from_up_to_down",
    "  rowfall lab down{}": "e2e/test_lab.py::test_from_up_to_down",
    "Name their cluster{}: --to {}.": "e2e/test_cluster_identity.py::test_two_users_on_two_replicas",
    "Take a hash of it: --shard-key {}.": "e2e/test_cluster_sharding_keys.py::test_what_cannot_be_is_refused",
    "Start it and run the same command again. Only where its disk is gone and its rows never reached another replica: rowfall forget, and load again.": "e2e/test_server.py::test_forget_then_load_again",
    " --to {}": "e2e/test_hint_commands.py::test_the_command_that_looks_at_the_table",
    "  look again: rowfall status": "e2e/test_load.py::test_a_running_load_can_be_looked_at",
    "Leave it out: rowfall plan says what readers then see.": "e2e/test_cluster.py::test_the_plan_says_what_the_disks_of_the_nodes_have",
    "The source may have changed while it was loaded; rowfall verify tells which files differ.": "e2e/test_load.py::test_verify_says_which_files_are_short",
    " Or convert the file: iconv -f {} -t utf-8 FILE | rowfall load -": "e2e/test_hints.py::test_an_encoding_that_is_not_read",
    "Let its owner run: GRANT {} ON {} TO {};": "e2e/test_postgresql.py::test_what_cannot_be_read_is_named",
    "Let its owner GRANT SELECT on it.": "e2e/test_postgresql.py::test_what_cannot_be_read_is_named",
    "Write a command before it: zcat trips.csv.gz | rowfall load -": "e2e/test_hint_commands.py::test_the_command_before_stdin",
    "{}: --on-conflict {}": "e2e/test_to_postgresql.py::test_conflicts",
    "GRANT {} TO {};": "e2e/test_to_postgresql.py::test_refusals",
    "Write --to {} --table NAME.": "e2e/test_to_postgresql.py::test_refusals",
    "rowfall forget {} forgets the whole load.": "e2e/test_to_postgresql.py::test_commands_on_the_target",
    "rowfall verify {} says which files.": "e2e/test_to_postgresql.py::test_commands_on_the_target",
    "Give up that load with rowfall forget LOAD (rowfall status names it), then load the table anew with --replace.": "e2e/test_postgresql.py::test_a_half_loaded_table_without_a_key_that_was_changed",
}  # fmt: skip
"""Text of a hint -> the test that runs its command."""

NOT_RUN = {
    "Unpack it first: 7z x FILE.": "a program of others",
    "Unpack it first: unrar x FILE.": "a program of others",
    "kafka-topics.sh --list shows the topics of the cluster.": "a program of others",
    "Drop the feature (ALTER TABLE ... DROP FEATURE), or copy the table without it.": "Spark's",
    "Say so: --encoding {}.": "for files whose first bytes say another one than the sample",
    "It was cut off, or is no zstd: test it with zstd -t.": "as that of gzip in e2e/test_hint_commands.py",
    "It was cut off, or is no lz4: test it with lz4 -t.": "as that of gzip in e2e/test_hint_commands.py",
    "It was cut off, or is no bzip2: test it with bzip2 -t.": "as that of gzip in e2e/test_hint_commands.py",
    "Test it with bzip2 -t.": "as that of gzip in e2e/test_hint_commands.py",
    "GRANT SHOW COLUMNS, SELECT ON {}": "two rights for an administrator to grant",
    "An administrator can run: ALTER USER {} SETTINGS {} = {}": "a profile that forbids a setting",
    "Count what is in the table, because files may have been loaded twice. Then keep one journal: ALTER TABLE {}.{} DELETE WHERE into = '{}' on every other node.": "needs a look at the rows",
    "Look at the table which one it was. Then load the others one by one with --force, or rowfall forget that load, delete its rows, and load all.": "needs a ledger of an older version",
}  # fmt: skip
"""Text of a hint -> why no test runs its command."""
