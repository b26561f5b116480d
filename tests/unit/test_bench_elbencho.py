"""How bench/ reads elbencho's results."""

import json

import elbencho
import pytest

# Output of elbencho 3.1-10, with its command line truncated.
READ_OF_A_FILE = (
    '{"phase_type":"READ","phase_id":"11f2bae9-ef98-4a78-9560-81eed9abb6fd","iso_start_date":'
    '"2026-11-21T18:04:36.621+0000","config":{"path_type":"file","paths":"1","hosts":"1",'
    '"threads":"2","file_size":"67108864","block_size":"1048576","direct_io":"false",'
    '"random_offsets":"false","io_depth":"1","truncate_files":"false","version":"3.1-10"},'
    '"first_done":{"elapsed_time_ms":"7","iops":"8481","bytes\\/s":"8893650723","bytes":"63963136",'
    '"cpu%":"100"},"last_done":{"elapsed_time_ms":"8","iops":"7994","bytes\\/s":"8382321259",'
    '"bytes":"67108864","cpu%":"100"}}\n'
)
WRITE_AND_STAT_OF_FILES = (
    '{"phase_type":"WRITE","config":{"path_type":"dir","threads":"2","dirs":"1","files":"50",'
    '"file_size":"4096","block_size":"4096","version":"3.1-10"},"first_done":{"elapsed_time_ms":'
    '"3","entries\\/s":"20814","iops":"21116","bytes\\/s":"86491704","entries":"69","bytes":'
    '"286720","cpu%":"100"},"last_done":{"elapsed_time_ms":"6","entries\\/s":"14505","iops":'
    '"14505","bytes\\/s":"59413983","entries":"100","bytes":"409600","cpu%":"100"}}\n'
    '{"phase_type":"STAT","config":{"path_type":"dir","threads":"2","dirs":"1","files":"50",'
    '"file_size":"4096","block_size":"4096","version":"3.1-10"},"first_done":{"elapsed_time_ms":'
    '"0","entries\\/s":"102249","entries":"50","cpu%":"0"},"last_done":{"elapsed_time_ms":"0",'
    '"entries\\/s":"146412","entries":"100","cpu%":"0"}}\n'
)


def test_a_file_is_counted_in_blocks_until_the_last_thread_ends() -> None:
    assert elbencho.parse_phases(READ_OF_A_FILE) == [elbencho.Phase("READ", 0, 64, 7994.0)]


def test_files_are_counted_one_by_one_also_where_no_bytes_move() -> None:
    written, stated = elbencho.parse_phases(WRITE_AND_STAT_OF_FILES)
    assert written == elbencho.Phase("WRITE", 100, 100, 14505.0)
    assert stated == elbencho.Phase("STAT", 100, 0, 146412.0)


def test_a_phase_that_did_nothing_is_refused() -> None:
    phase = json.loads(READ_OF_A_FILE)
    phase["last_done"] = {"elapsed_time_ms": "0", "cpu%": "0"}
    with pytest.raises(SystemExit, match="phase READ:"):
        elbencho.parse_phases(json.dumps(phase))
